import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { inDirectory, readPlainFile } from './plain-files.ts';
import { LONG_HEADER_BYTES, SHORT_HEADER_BYTES, WAL_PAGE_BYTES } from './wal/pages.ts';

/** `pg_subscription`, as long as nothing has rewritten it. */
const SUBSCRIPTIONS = 6100;
/** `pg_global`, the tablespace of what all databases share. */
const GLOBAL = 1664;
/** `RELMAPPER_FILEMAGIC`: begins the image of a relation map, which a rewrite of a shared catalogue logs. */
const MAP_MAGIC = 0x592717;
/** Either side of a place where a page ends has all twelve bytes that are looked for but one. */
const SEAM_BYTES = 11;
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
      let before: Buffer = Buffer.alloc(0);
      for (const name of (await readdir(wal)).filter((one) => SEGMENT.test(one)).sort()) {
        const segment = await readPlainFile(join(wal, name), SEGMENT_BYTES_MAX);
        const { seams, end } = seamsOf(segment, before);
        for (const bytes of [segment, seams]) if (hasRelation(bytes) || hasMap(bytes)) return true;
        before = end;
      }
      return false;
    });
  });
}

/** A record names a relation by tablespace, database (none), and number. */
function hasRelation(log: Buffer): boolean {
  return has(log, SUBSCRIPTIONS, (at) => log.readUInt32LE(at - 8) === GLOBAL && log.readUInt32LE(at - 4) === 0);
}

/** A record of a new map gives its tablespace, its length, and the image. */
function hasMap(log: Buffer): boolean {
  return has(log, MAP_MAGIC, (at) => log.readUInt32LE(at - 8) === GLOBAL);
}

/** Whether a number stands somewhere behind eight bytes of which `fits` is true. Searched for by the number, which is rare, and so fast. */
function has(log: Buffer, number: number, fits: (at: number) => boolean): boolean {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(number);
  for (let at = log.indexOf(bytes, 8); at >= 0; at = log.indexOf(bytes, at + 1)) if (fits(at)) return true;
  return false;
}

/**
 * What a record says may begin on one page and end on the next, behind that page's header: the bytes around each such
 * place, one after the other.
 *
 * @param before the last bytes of the page before the segment
 * @returns `end` for the segment behind
 */
function seamsOf(segment: Buffer, before: Buffer): { seams: Buffer; end: Buffer } {
  const seams: Buffer[] = [];
  let end = before;
  for (let page = 0; page + WAL_PAGE_BYTES <= segment.length; page += WAL_PAGE_BYTES) {
    const from = page + (page === 0 ? LONG_HEADER_BYTES : SHORT_HEADER_BYTES);
    seams.push(end, segment.subarray(from, from + SEAM_BYTES));
    end = segment.subarray(page + WAL_PAGE_BYTES - SEAM_BYTES, page + WAL_PAGE_BYTES);
  }
  return { seams: Buffer.concat(seams), end };
}

function ignoreAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
