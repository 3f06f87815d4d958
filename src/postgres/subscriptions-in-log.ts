import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { inDirectory, readPlainFile } from './plain-files.ts';
import { pageHeader, WAL_PAGE_BYTES } from './wal/pages.ts';

/** `pg_subscription`, as long as nothing has rewritten it. */
const SUBSCRIPTIONS = 6100;
/** `pg_global`, the tablespace of what all databases share. */
const GLOBAL = 1664;
/** `RELMAPPER_FILEMAGIC`: begins the image of a relation map, which a rewrite of a shared catalogue logs. */
const MAP_MAGIC = 0x592717;
/** In a record of a new map, from its tablespace to the image: the tablespace, and the length. */
const MAP_MAGIC_OFFSET = 8;
const SEGMENT = /^[0-9A-F]{24}$/;
const SEGMENT_BYTES_MAX = 1024 ** 3;

/**
 * Whether the server that starts on this stopped directory could find subscriptions there once it has replayed its log:
 * the catalogue holds some, the log touches it, or somebody rewrote it. Every change of a page is logged with the name
 * of its relation, whatever kind of record it is, so that a log without that name leaves the catalogue as it is
 * (Postgres source, `RelFileLocator` in `xlogrecord.h`).
 */
export async function mayHoldSubscriptions(dataDirectory: string): Promise<boolean> {
  return inDirectory(dataDirectory, async (directory) => {
    const catalogue = await lstat(join(directory, 'global', String(SUBSCRIPTIONS))).catch(ignoreAbsent);
    if (catalogue?.size !== 0) return true;
    return inDirectory(join(directory, 'pg_wal'), async (wal) => {
      // What a record says may begin on one page and end on the next.
      let before: Buffer = Buffer.alloc(0);
      for (const name of (await readdir(wal)).filter((one) => SEGMENT.test(one)).sort()) {
        const log = Buffer.concat([before, recordBytes(await readPlainFile(join(wal, name), SEGMENT_BYTES_MAX))]);
        if (log.includes(RELATION) || hasMap(log)) return true;
        before = log.subarray(Math.max(0, log.length - RELATION.length));
      }
      return false;
    });
  });
}

/** Tablespace, database (none), and relation, as records name it. */
const RELATION = uint32s(GLOBAL, 0, SUBSCRIPTIONS);
const MAGIC = uint32s(MAP_MAGIC);

function hasMap(log: Buffer): boolean {
  for (let at = log.indexOf(MAGIC); at >= 0; at = log.indexOf(MAGIC, at + 1)) {
    if (at >= MAP_MAGIC_OFFSET && log.readUInt32LE(at - MAP_MAGIC_OFFSET) === GLOBAL) return true;
  }
  return false;
}

/** A segment without the headers of its pages, up to the first page that nobody wrote; records run on over pages. */
function recordBytes(segment: Buffer): Buffer {
  const bytes = Buffer.allocUnsafe(segment.length);
  let length = 0;
  for (let page = 0; page + WAL_PAGE_BYTES <= segment.length; page += WAL_PAGE_BYTES) {
    if (segment.readUInt16LE(page) === 0) break;
    const { header_bytes } = pageHeader(segment, page);
    length += segment.copy(bytes, length, page + header_bytes, page + WAL_PAGE_BYTES);
  }
  return bytes.subarray(0, length);
}

function uint32s(...values: number[]): Buffer {
  return Buffer.from(Uint32Array.from(values).buffer);
}

function ignoreAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
