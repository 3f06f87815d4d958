import { S3Client } from '@aws-sdk/client-s3';
import type { ObjectCall } from '../contract.ts';
import { objectErrorOf } from './errors.ts';

export interface S3Limits {
  readonly connect_ms: number;
  /** So long nothing may come. */
  readonly idle_ms: number;
  /** For a request with all its attempts, without the body of what is fetched. */
  readonly total_ms: number;
  readonly attempts: number;
}

const LIMITS: S3Limits = { connect_ms: 5_000, idle_ms: 30_000, total_ms: 120_000, attempts: 5 };

export interface S3Options {
  readonly bucket: string;
  /** What keys begin with there, without a slash at its end; may be empty. */
  readonly prefix: string;
  readonly region: string;
  /** Of a server that is not Amazon's; it is then asked with the bucket in the path. */
  readonly endpoint?: string | undefined;
  /** Found as S3's own tools find it where it is not given. */
  readonly credentials?: { readonly accessKeyId: string; readonly secretAccessKey: string };
  readonly limits?: Partial<S3Limits>;
}

/** A bucket and how it is asked. */
export interface Bucket {
  readonly client: S3Client;
  readonly name: string;
  readonly place: string;
  readonly limits: S3Limits;
  /** The name of an object in the bucket. */
  fullKey(key: string): string;
  /** The reverse. */
  keyOf(name: string): string;
  /**
   * Asks, for a bounded time. Throws ObjectError for what the store or the way to it is to blame for, and the signal's
   * reason when the caller aborts.
   */
  ask<T>(
    key: string | undefined,
    call: ObjectCall | undefined,
    work: (abortSignal: AbortSignal) => Promise<T>,
  ): Promise<T>;
}

export function openBucket({ bucket, prefix, region, endpoint, credentials, limits: given }: S3Options): Bucket {
  const limits = { ...LIMITS, ...given };
  const place = `s3://${bucket}${prefix === '' ? '' : `/${prefix}`}`;
  const before = prefix === '' ? '' : `${prefix}/`;
  const client = new S3Client({
    region,
    maxAttempts: limits.attempts,
    retryMode: 'standard',
    // We give the checksums; not all servers know the ones that would be added.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: {
      connectionTimeout: limits.connect_ms,
      socketTimeout: limits.idle_ms,
      requestTimeout: limits.total_ms,
      throwOnRequestTimeout: true,
    },
    ...(endpoint && { endpoint, forcePathStyle: true }),
    ...(credentials && { credentials }),
  });
  return {
    client,
    name: bucket,
    place,
    limits,
    fullKey: (key) => `${before}${key}`,
    keyOf: (name) => name.slice(before.length),
    ask: async (key, call, work) => {
      const deadline = AbortSignal.timeout(limits.total_ms);
      try {
        return await work(call?.signal ? AbortSignal.any([call.signal, deadline]) : deadline);
      } catch (error) {
        call?.signal?.throwIfAborted();
        throw objectErrorOf(error, { place, bucket, key });
      }
    },
  };
}
