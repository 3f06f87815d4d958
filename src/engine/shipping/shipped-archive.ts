import { join } from 'node:path';
import {
  type ArchiveDriver,
  type ArchivedFile,
  ArchiveError,
  type ArchiveWriter,
  type CheckSegment,
  type TakenIn,
} from '../../drivers/archive/contract.ts';
import type { ObjectStore } from '../../drivers/objects/contract.ts';
import { writeNewFile } from '../../postgres/plain-files.ts';
import { toldOfObjects } from '../objects/storing.ts';
import { stopPoint } from '../stop-point.ts';
import { archiveErrorOf, fileOf, getPack, putPack } from './pack.ts';
import { type PackRecord, type PackRecords, packRecordsBelow } from './pack-records.ts';

const SEGMENT = /^[0-9A-F]{24}$/;
/** Of a megabyte each, where we made the server. */
const PACK_FILES_MAX = 64;
const PACK_BYTES_MAX = 64 * 1024 ** 2;
/** Whoever replays reads one segment after the other. */
const PACKS_KEPT = 2;
const PACKS_KEPT_MS = 30_000;

export interface ShippedArchiveOptions {
  /** On this machine: where servers put their log. */
  readonly local: ArchiveDriver;
  readonly objects: ObjectStore;
  /** Where it is written down which packs there are. */
  readonly records_directory: string;
}

/** What of a timeline's log is not in object storage yet. */
export interface Backlog {
  readonly files: number;
  /** When the oldest of them was taken in. */
  readonly since: Date | undefined;
}

/**
 * An archive that is also kept in object storage, in packs below `timelines/<id>/log/`. Everything is on this machine
 * first; what object storage has confirmed may go from here, and is read from there then.
 */
export class ShippedArchive implements ArchiveDriver {
  readonly name: string;
  readonly #local: ArchiveDriver;
  readonly #objects: ObjectStore;
  readonly #records: PackRecords;
  /** What changes a timeline's packs happens one after the other. */
  readonly #turns = new Map<string, Promise<unknown>>();
  /** Timelines of which there may be something to send or to remove; at first that may be all. */
  #restless: Set<string> | undefined;
  readonly #opened = new Map<string, Promise<Map<string, Buffer>>>();

  constructor({ local, objects, records_directory }: ShippedArchiveOptions) {
    this.name = `${local.name}+${objects.name}`;
    this.#local = local;
    this.#objects = objects;
    this.#records = packRecordsBelow(records_directory);
  }

  ensureReady(timelineId: string, writer?: ArchiveWriter): Promise<void> {
    return this.#local.ensureReady(timelineId, writer);
  }

  archiveCommand(timelineId: string): string {
    return this.#local.archiveCommand(timelineId);
  }

  async takeIn(timelineId: string, check: CheckSegment): Promise<TakenIn> {
    const done = await this.#local.takeIn(timelineId, check);
    if (done.taken.length > 0) this.#restless?.add(timelineId);
    return done;
  }

  seal(timelineId: string, names: readonly string[]): Promise<void> {
    return this.#local.seal(timelineId, names);
  }

  takeCopy(timelineId: string, name: string, path: string): Promise<ArchivedFile> {
    return this.#local.takeCopy(timelineId, name, path);
  }

  /** Of what lies here; what lies in a pack was confirmed with its checksum. */
  mend(timelineId: string, name: string, path: string): Promise<boolean> {
    return this.#local.mend(timelineId, name, path);
  }

  lost(timelineId: string): Promise<string[]> {
    return this.#local.lost(timelineId);
  }

  async list(timelineId: string): Promise<ArchivedFile[]> {
    // First here: what goes from here meanwhile is in a pack.
    const local = await this.#local.list(timelineId);
    const here = new Set(local.map(({ name }) => name));
    const packed = (await this.#confirmed(timelineId)).flatMap(({ files }) => files);
    return [...local, ...packed.filter(({ name }) => !here.has(name))].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  async read(timelineId: string, name: string): Promise<Buffer> {
    try {
      return await this.#local.read(timelineId, name);
    } catch (error) {
      if (!(error instanceof ArchiveError)) throw error;
      const packed = await this.#readPacked(timelineId, name);
      if (packed) return packed;
      throw error;
    }
  }

  async copyTo(timelineId: string, name: string, directory: string): Promise<void> {
    try {
      await this.#local.copyTo(timelineId, name, directory);
    } catch (error) {
      if (!(error instanceof ArchiveError)) throw error;
      const packed = await this.#readPacked(timelineId, name);
      if (!packed) throw error;
      await writeNewFile(join(directory, name), packed);
    }
  }

  async ensureRemoved(timelineId: string, names: readonly string[]): Promise<void> {
    await this.#local.ensureRemoved(timelineId, names);
    const removed = new Set(names);
    await this.#inTurn(timelineId, async () => {
      for (const record of await this.#records.list(timelineId)) {
        const files = record.files.filter(({ name }) => !removed.has(name));
        if (files.length === record.files.length) continue;
        const state = files.length === 0 ? 'unwanted' : record.state;
        await this.#records.put(timelineId, { ...record, state, files });
        if (state === 'unwanted') this.#restless?.add(timelineId);
      }
    });
  }

  /** What is in object storage goes by the next `ship`, so that nobody's deletion waits for that. */
  async ensureDeleted(timelineId: string): Promise<void> {
    await this.#inTurn(timelineId, async () => {
      for (const record of await this.#records.list(timelineId)) {
        if (record.state !== 'unwanted')
          await this.#records.put(timelineId, { ...record, state: 'unwanted', files: [] });
        this.#restless?.add(timelineId);
      }
    });
    await this.#local.ensureDeleted(timelineId);
  }

  timelines(): Promise<string[]> {
    return this.#local.timelines();
  }

  /** Timelines that `ship` is to be called for. */
  async restless(): Promise<string[]> {
    if (!this.#restless) {
      const [here, there] = await Promise.all([this.#local.timelines(), this.#records.timelines()]);
      this.#restless = new Set([...here, ...there]);
    }
    return [...this.#restless];
  }

  /**
   * Sends what there is in full packs, and what has been waiting since `waited_since` in one that is not; removes packs that
   * nobody wants. Returns what then still waits. Throws ObjectError.
   */
  async ship(timelineId: string, waited_since: Date): Promise<Backlog> {
    for (const { id, state } of await this.#records.list(timelineId)) {
      if (state === 'unwanted') await this.#removePack(timelineId, id);
    }
    const unreadable = new Set<string>();
    for (;;) {
      const pack = await this.#inTurn(timelineId, () => this.#nextPack(timelineId, waited_since, unreadable));
      if (!pack) break;
      await this.#send(timelineId, pack, unreadable);
    }
    const waiting = await this.waiting(timelineId);
    const unwanted = (await this.#records.list(timelineId)).some(({ state }) => state !== 'confirmed');
    if (waiting.files === 0 && !unwanted) this.#restless?.delete(timelineId);
    return waiting;
  }

  /** What was not confirmed by object storage yet. */
  async waiting(timelineId: string): Promise<Backlog> {
    const unsent = await this.#unsent(timelineId);
    const since = unsent.reduce<Date | undefined>(
      (oldest, { archived_at }) => (oldest && oldest < archived_at ? oldest : archived_at),
      undefined,
    );
    return { files: unsent.length, since };
  }

  /** Frees this disk of what was archived before, as far as object storage has confirmed it. */
  async free(timelineId: string, before: Date): Promise<number> {
    const confirmed = await this.#confirmed(timelineId);
    const packed = new Map(confirmed.flatMap(({ files }) => files.map((file) => [file.name, file.sha256] as const)));
    const names = (await this.#local.list(timelineId))
      .filter(({ name, sha256, archived_at }) => packed.get(name) === sha256 && archived_at < before)
      .map(({ name }) => name);
    if (names.length > 0) await this.#local.ensureRemoved(timelineId, names);
    return names.length;
  }

  async #confirmed(timelineId: string): Promise<readonly PackRecord[]> {
    return (await this.#records.list(timelineId)).filter(({ state }) => state === 'confirmed');
  }

  /** Finished segments; the few history files are small, and stay here. */
  async #unsent(timelineId: string): Promise<ArchivedFile[]> {
    const local = (await this.#local.list(timelineId)).filter(({ name, copy }) => SEGMENT.test(name) && !copy);
    const sent = new Set((await this.#confirmed(timelineId)).flatMap(({ files }) => files.map(({ name }) => name)));
    return local.filter(({ name }) => !sent.has(name));
  }

  /** One that somebody was killed while sending, or a new one, which is written down before anything of it is sent. */
  async #nextPack(
    timelineId: string,
    waited_since: Date,
    unreadable: ReadonlySet<string>,
  ): Promise<PackRecord | undefined> {
    const begun = (await this.#records.list(timelineId)).find(({ state }) => state === 'sending');
    if (begun) return begun;
    const unsent = (await this.#unsent(timelineId)).filter(({ name }) => !unreadable.has(name));
    const files: ArchivedFile[] = [];
    let bytes = 0;
    for (const file of unsent) {
      if (files.length === PACK_FILES_MAX || (bytes > 0 && bytes + file.bytes > PACK_BYTES_MAX)) break;
      files.push(file);
      bytes += file.bytes;
    }
    const due = files.length < unsent.length || files.some(({ archived_at }) => archived_at <= waited_since);
    if (!due && files.length < PACK_FILES_MAX) return undefined;
    const pack: PackRecord = { id: `${files[0]!.name}-${files.at(-1)!.name}`, state: 'sending', files };
    await this.#records.put(timelineId, pack);
    return pack;
  }

  /** Leaves out what cannot be read here: whoever looks after the archive tells of it. */
  async #send(timelineId: string, pack: PackRecord, unreadable: Set<string>): Promise<void> {
    const files = [];
    for (const file of pack.files) {
      const contents = await this.#local.read(timelineId, file.name).catch((error) => {
        if (!(error instanceof ArchiveError)) throw error;
        return undefined;
      });
      if (contents) files.push({ ...file, contents });
      else unreadable.add(file.name);
    }
    const key = keyOf(timelineId, pack.id);
    if (files.length > 0) await putPack(this.#objects, key, files);
    stopPoint('archive:sent');
    const sent = new Set(files.map(({ name }) => name));
    await this.#inTurn(timelineId, async () => {
      const now = (await this.#records.list(timelineId)).find(({ id }) => id === pack.id);
      // Its timeline was deleted meanwhile, or nobody needs it any more.
      if (!now || now.state === 'unwanted')
        return this.#records.put(timelineId, { ...pack, state: 'unwanted', files: [] });
      const kept = now.files.filter(({ name }) => sent.has(name));
      const state = kept.length === 0 ? 'unwanted' : 'confirmed';
      await this.#records.put(timelineId, { ...pack, state, files: kept });
    });
    stopPoint('archive:shipped');
  }

  async #removePack(timelineId: string, id: string): Promise<void> {
    this.#opened.delete(keyOf(timelineId, id));
    await this.#objects.ensureRemoved([keyOf(timelineId, id)]);
    await this.#inTurn(timelineId, () => this.#records.remove(timelineId, id));
  }

  /** Undefined when no pack has it. */
  async #readPacked(timelineId: string, name: string): Promise<Buffer | undefined> {
    for (const look of ['list', 'reload'] as const) {
      for (const { id, state, files } of await this.#records[look](timelineId)) {
        const file = state === 'confirmed' ? files.find((candidate) => candidate.name === name) : undefined;
        if (!file) continue;
        const key = keyOf(timelineId, id);
        return toldOfObjects(async () => {
          try {
            return fileOf(await this.#open(key), file, key);
          } catch (error) {
            throw archiveErrorOf(error, name);
          }
        });
      }
    }
    return undefined;
  }

  #open(key: string): Promise<Map<string, Buffer>> {
    const there = this.#opened.get(key);
    if (there) return there;
    const pack = getPack(this.#objects, key);
    this.#opened.set(key, pack);
    pack.catch(() => this.#opened.delete(key));
    if (this.#opened.size > PACKS_KEPT) this.#opened.delete(this.#opened.keys().next().value!);
    setTimeout(() => this.#opened.delete(key), PACKS_KEPT_MS).unref();
    return pack;
  }

  async #inTurn<T>(timelineId: string, body: () => Promise<T>): Promise<T> {
    const turn = (this.#turns.get(timelineId) ?? Promise.resolve()).then(body, body);
    const settled = turn.catch(() => undefined);
    this.#turns.set(timelineId, settled);
    try {
      return await turn;
    } finally {
      if (this.#turns.get(timelineId) === settled) this.#turns.delete(timelineId);
    }
  }
}

const keyOf = (timelineId: string, packId: string): string => `timelines/${timelineId}/log/${packId}`;
