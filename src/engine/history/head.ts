import { setTimeout as delay } from 'node:timers/promises';
import type { HistoryPoint } from '../../domain/history.ts';
import { formatLsn, type Lsn, parseLsn } from '../../domain/lsn.ts';
import type { ComputeRef } from '../../drivers/compute/contract.ts';
import { readControlFile } from '../../postgres/control-file.ts';
import { readRecords } from '../../postgres/wal/records.ts';
import type { TimelineRow } from '../../store/schema.ts';
import type { EngineContext } from '../context.ts';
import { findRunningServer } from '../running-server.ts';
import { sessions } from '../sessions.ts';
import { openLog } from './log.ts';

/** A server that does not answer for so long is hung. */
const LOOK_TIMEOUT_MS = 10_000;
/** What was written without waiting is flushed by the server itself well before. */
const FLUSH_WAIT_MS = 3_000;
const FLUSH_POLL_MS = 20;
const GONE_POLL_MS = 100;
const END_OF_ALL: Lsn = 'FFFFFFFF/FFFFFFFF';

/**
 * How far a timeline reaches now: the end of what is on disk for certain.
 *
 * @param asked_lsn waited for when the server has written it but not flushed it
 */
export async function findHead(ctx: EngineContext, timeline: TimelineRow, asked_lsn?: Lsn): Promise<HistoryPoint> {
  const deadline = Date.now() + LOOK_TIMEOUT_MS;
  for (;;) {
    const timestamp = new Date();
    const server = await findRunningServer(ctx, timeline.id);
    if (!server) return { lsn: await endOfLog(ctx, timeline), timestamp };
    try {
      return { lsn: await flushedLsn(ctx, server, asked_lsn), timestamp };
    } catch (error) {
      // It may have gone to sleep, or begun to, since it was looked at.
      if (Date.now() > deadline) throw error;
      await delay(GONE_POLL_MS);
    }
  }
}

async function flushedLsn(ctx: EngineContext, server: ComputeRef, asked_lsn: Lsn | undefined): Promise<Lsn> {
  await using session = await sessions(ctx, server, AbortSignal.timeout(LOOK_TIMEOUT_MS))('postgres');
  const deadline = Date.now() + FLUSH_WAIT_MS;
  for (;;) {
    const { rows } = await session.query(
      'SELECT pg_current_wal_flush_lsn()::text AS flushed, pg_current_wal_insert_lsn()::text AS inserted',
    );
    const { flushed, inserted } = rows[0];
    const comes = asked_lsn && parseLsn(asked_lsn) > parseLsn(flushed) && parseLsn(asked_lsn) <= parseLsn(inserted);
    if (!comes || Date.now() > deadline) return flushed;
    await delay(FLUSH_POLL_MS);
  }
}

/** Of a stopped server: the end of its last record, which after a clean stop is that of its checkpoint. */
async function endOfLog(ctx: EngineContext, timeline: TimelineRow): Promise<Lsn> {
  const { checkpointLsn } = await readControlFile(ctx.storage.path(timeline.volume!));
  const log = await openLog(ctx, timeline, { from: checkpointLsn });
  let end = parseLsn(checkpointLsn);
  for await (const record of readRecords(log, checkpointLsn, END_OF_ALL)) end = record.end;
  return formatLsn(end);
}
