import { join } from 'node:path';
import { formatLsn, type Lsn, parseLsn } from '../domain/lsn.ts';
import { readControlFile } from './control-file.ts';
import { inDirectory, readPlainFile } from './plain-files.ts';
import { walSegmentName } from './wal-segment.ts';

const PAGE_BYTES = 8192;
/** `struct XLogPageHeaderData`; that of a segment's first page says more. */
const PAGE_HEADER_BYTES = 24;
const SEGMENT_HEADER_BYTES = 40;
/** Every record begins where this divides. */
const ALIGNMENT_BYTES = 8n;
/** A checkpoint's record has some 114; more than a page is none. */
const RECORD_BYTES_MIN = 24;

/**
 * Where the log of a cleanly stopped server ends: behind the record of its last checkpoint, where the next record will
 * start. Everything before it is in the files.
 * @throws when the server did not stop cleanly, or its log is not there
 */
export async function consistentEnd(dataDirectory: string): Promise<Lsn> {
  const { state, checkpointLsn, timeline, walSegmentBytes } = await readControlFile(dataDirectory);
  if (state !== 'shut down') throw new Error(`${dataDirectory} was not stopped cleanly: "${state}"`);
  const start = parseLsn(checkpointLsn);
  const name = walSegmentName(timeline, start, walSegmentBytes);
  const bytes = await inDirectory(dataDirectory, (directory) =>
    inDirectory(join(directory, 'pg_wal'), (wal) => readPlainFile(join(wal, name), walSegmentBytes)),
  );
  const at = Number(start % BigInt(walSegmentBytes));
  const record_bytes = at + 4 <= bytes.length ? bytes.readUInt32LE(at) : 0;
  if (record_bytes < RECORD_BYTES_MIN || record_bytes > PAGE_BYTES) {
    throw new Error(`${name} holds no checkpoint at ${checkpointLsn}`);
  }
  return formatLsn(endOfRecord(start, record_bytes, walSegmentBytes));
}

/** A record goes on behind the header of the next page. One that ends with its page ends there, before the next header. */
function endOfRecord(start: bigint, record_bytes: number, segment_bytes: number): bigint {
  let position = start;
  let left = record_bytes;
  for (;;) {
    const room = PAGE_BYTES - Number(position % BigInt(PAGE_BYTES));
    if (left <= room) return aligned(position + BigInt(left));
    left -= room;
    position += BigInt(room);
    position += BigInt(position % BigInt(segment_bytes) === 0n ? SEGMENT_HEADER_BYTES : PAGE_HEADER_BYTES);
  }
}

const aligned = (position: bigint): bigint => ((position + ALIGNMENT_BYTES - 1n) / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
