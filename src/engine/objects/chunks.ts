import type { ObjectStore } from '../../drivers/objects/contract.ts';
import { getSealed, putSealed, sha256Of } from './sealed.ts';

/** Pieces of volumes are smaller, and so are segments of log unless a server was made with larger ones. */
const CHUNK_BYTES_MAX = 64 * 1024 ** 2;

/**
 * Pieces of files, each stored once under the checksum of its contents, so that what volumes have in common (a branch
 * and its parent, one snapshot and the next) is neither sent nor kept twice.
 */
export interface Chunks {
  /** The chunk is there; its name. */
  put(bytes: Buffer, signal?: AbortSignal): Promise<string>;
  get(name: string, signal?: AbortSignal): Promise<Buffer>;
  /** The object that holds it. */
  keyOf(name: string): string;
  /** Bytes of what was sent so far, as stored. */
  readonly sent_bytes: number;
}

/** Chunks below `<prefix>chunks/`. What is there already is asked once, at the first `put`. */
export function chunksBelow(objects: ObjectStore, prefix: string): Chunks {
  const keyOf = (name: string) => `${prefix}chunks/${name.slice(0, 2)}/${name}`;
  let known: Promise<Set<string>> | undefined;
  let sent_bytes = 0;
  const list = async (signal?: AbortSignal) => {
    const names = new Set<string>();
    for await (const { key } of objects.list(`${prefix}chunks/`, { signal }))
      names.add(key.slice(key.lastIndexOf('/') + 1));
    return names;
  };
  const ask = (signal?: AbortSignal) => {
    if (known) return known;
    const asked = list(signal);
    known = asked;
    // Whoever waits for it hears why; the next one asks again.
    asked.catch(() => {
      known = undefined;
    });
    return asked;
  };
  return {
    keyOf,
    get sent_bytes() {
      return sent_bytes;
    },
    put: async (bytes, signal) => {
      const there = await ask(signal);
      const name = sha256Of(bytes).toString('hex');
      if (there.has(name)) return name;
      sent_bytes += await putSealed(objects, keyOf(name), bytes, signal);
      there.add(name);
      return name;
    },
    get: (name, signal) => getSealed(objects, keyOf(name), signal, CHUNK_BYTES_MAX),
  };
}
