import { randomUUID } from 'node:crypto';
import {
  AbortMultipartUploadCommand,
  DeleteObjectsCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  type ListObjectsV2CommandOutput,
} from '@aws-sdk/client-s3';
import { assertKey, type ObjectCall, ObjectError, type ObjectInfo, type ObjectStore } from '../contract.ts';
import { type Bucket, openBucket, type S3Options } from './bucket.ts';
import { readObject } from './read-object.ts';
import { putParts, putWhole } from './write-object.ts';

/** S3's own bound. */
const REMOVED_AT_ONCE = 1_000;
/** Nobody writes an object for so long. */
const UPLOAD_AGE_MAX_MS = 86_400_000;

/**
 * Objects in a bucket of S3, or of what speaks its language. Every put is confirmed by the store with the SHA-256 of what
 * it holds, and what is read is compared with it.
 */
export function createS3Objects(options: S3Options): ObjectStore {
  return new S3Objects(openBucket(options));
}

class S3Objects implements ObjectStore {
  readonly name = 's3';
  readonly place: string;
  readonly #bucket: Bucket;

  constructor(bucket: Bucket) {
    this.#bucket = bucket;
    this.place = bucket.place;
  }

  async check(call?: ObjectCall): Promise<void> {
    const key = `check-${randomUUID()}`;
    const bytes = Buffer.from('can be written');
    await this.find(key, call);
    await this.put(key, bytes, call);
    try {
      await this.get(key, call);
    } finally {
      await this.ensureRemoved([key], call);
    }
    await this.#abandonUploads(call);
  }

  async put(key: string, bytes: Buffer, call?: ObjectCall): Promise<void> {
    assertKey(key);
    await putWhole(this.#bucket, key, bytes, call);
  }

  async putStream(key: string, source: AsyncIterable<Buffer>, call?: ObjectCall): Promise<ObjectInfo> {
    assertKey(key);
    const bytes = await putParts(this.#bucket, key, source, call);
    return { key, bytes, stored_at: new Date() };
  }

  async get(key: string, call?: ObjectCall): Promise<Buffer> {
    try {
      return await this.#getOnce(key, call);
    } catch (error) {
      // Perhaps it was damaged on the way alone.
      if (error instanceof ObjectError && error.kind === 'damaged') return this.#getOnce(key, call);
      throw error;
    }
  }

  async #getOnce(key: string, call?: ObjectCall): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for await (const piece of this.getStream(key, call)) pieces.push(piece);
    return Buffer.concat(pieces);
  }

  getStream(key: string, call?: ObjectCall): AsyncIterable<Buffer> {
    assertKey(key);
    return readObject(this.#bucket, key, call);
  }

  async find(key: string, call?: ObjectCall): Promise<ObjectInfo | undefined> {
    assertKey(key);
    // Asked for by itself, an object that is missing is not told from a bucket that is.
    const { Contents = [] } = await this.#page({ Prefix: this.#bucket.fullKey(key), MaxKeys: 1 }, call);
    const found = Contents.map((entry) => this.#infoOf(entry))[0];
    return found?.key === key ? found : undefined;
  }

  async *list(prefix: string, call?: ObjectCall): AsyncIterable<ObjectInfo> {
    for (let ContinuationToken: string | undefined; ; ) {
      const page = await this.#page({ Prefix: this.#bucket.fullKey(prefix), ContinuationToken }, call);
      for (const entry of page.Contents ?? []) yield this.#infoOf(entry);
      if (!page.IsTruncated) return;
      ContinuationToken = page.NextContinuationToken;
    }
  }

  async ensureRemoved(keys: readonly string[], call?: ObjectCall): Promise<void> {
    for (const key of keys) assertKey(key);
    for (let index = 0; index < keys.length; index += REMOVED_AT_ONCE) {
      const Objects = keys.slice(index, index + REMOVED_AT_ONCE).map((key) => ({ Key: this.#bucket.fullKey(key) }));
      const command = new DeleteObjectsCommand({ Bucket: this.#bucket.name, Delete: { Objects, Quiet: true } });
      const { Errors = [] } = await this.#bucket.ask(undefined, call, (abortSignal) =>
        this.#bucket.client.send(command, { abortSignal }),
      );
      const [first] = Errors;
      if (!first) continue;
      const kind = first.Code === 'AccessDenied' ? 'refused' : 'unreachable';
      const message = `${Errors.length} objects could not be removed from ${this.place} (${first.Code})`;
      throw new ObjectError(kind, undefined, message);
    }
  }

  #page(
    input: { Prefix: string; MaxKeys?: number; ContinuationToken?: string | undefined },
    call?: ObjectCall,
  ): Promise<ListObjectsV2CommandOutput> {
    const command = new ListObjectsV2Command({ Bucket: this.#bucket.name, ...input });
    return this.#bucket.ask(undefined, call, (abortSignal) => this.#bucket.client.send(command, { abortSignal }));
  }

  #infoOf({ Key = '', Size = 0, LastModified = new Date(0) }: Listed): ObjectInfo {
    return { key: this.#bucket.keyOf(Key), bytes: Size, stored_at: LastModified };
  }

  /** Parts of objects that somebody was killed while writing: nobody sees them, and they cost. */
  async #abandonUploads(call?: ObjectCall): Promise<void> {
    const { client, name: Bucket, fullKey, ask } = this.#bucket;
    const list = new ListMultipartUploadsCommand({ Bucket, Prefix: fullKey('') });
    const { Uploads = [] } = await ask(undefined, call, (abortSignal) => client.send(list, { abortSignal })).catch(
      // Not everybody may look at them.
      () => ({ Uploads: [] }),
    );
    for (const { Key, UploadId, Initiated = new Date() } of Uploads) {
      if (Date.now() - Initiated.getTime() < UPLOAD_AGE_MAX_MS) continue;
      const abort = new AbortMultipartUploadCommand({ Bucket, Key, UploadId });
      await ask(undefined, call, (abortSignal) => client.send(abort, { abortSignal }));
    }
  }
}

interface Listed {
  readonly Key?: string | undefined;
  readonly Size?: number | undefined;
  readonly LastModified?: Date | undefined;
}
