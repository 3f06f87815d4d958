import { readdir, rename, rm, rmdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { type Lsn, parseLsn } from '../domain/lsn.ts';
import { readControlFile } from './control-file.ts';
import { inDirectory, makeDirectoryLike, syncPlainFile, writeNewFile } from './plain-files.ts';
import type { Session } from './session.ts';
import type { StandbyFloor } from './settings.ts';

/** What a copy of a server's data directory follows that server with; the rest of its settings is its own. */
export const STANDBY_SETTINGS = {
  hot_standby: true,
  archive_mode: false,
  // The log of one timeline is followed, which never branches off.
  recovery_target_timeline: 'current',
  // A primary that sleeps is asked for so often whether it is there again.
  wal_retrieve_retry_interval: '1s',
  wal_receiver_timeout: '10s',
} as const;

const SIGNALS = ['standby.signal', 'recovery.signal'];

/** A server that is started on this data directory follows. Safe to run twice. Nothing is made durable. */
export async function makeStandby(dataDirectory: string): Promise<void> {
  await inDirectory(dataDirectory, async (directory) => {
    for (const name of SIGNALS) await rm(join(directory, name), { force: true });
    await writeNewFile(join(directory, 'standby.signal'), '');
  });
}

/** What the server that last ran on a data directory, or that it follows, demands of a standby. */
export async function standbyFloorOf(dataDirectory: string): Promise<StandbyFloor> {
  const control = await readControlFile(dataDirectory);
  return {
    max_connections: control.maxConnections,
    max_worker_processes: control.maxWorkerProcesses,
    max_wal_senders: control.maxWalSenders,
    max_prepared_transactions: control.maxPreparedTransactions,
    max_locks_per_transaction: control.maxLocksPerTransaction,
  };
}

/** How far a standby has come. */
export interface StandbyProgress {
  readonly replayed_lsn: Lsn;
  /** It receives from its primary. */
  readonly streaming: boolean;
  /** It goes no further: its primary has grown beyond what it was started with, and a restart helps. */
  readonly paused: boolean;
  /** Seconds since the last commit that was replayed; undefined before the first. */
  readonly commit_age_seconds: number | undefined;
}

/** @throws when the server is no standby */
export async function readStandbyProgress(session: Session): Promise<StandbyProgress> {
  const { rows } = await session.query(
    `SELECT pg_last_wal_replay_lsn()::text AS replayed_lsn, pg_get_wal_replay_pause_state() = 'paused' AS paused,
       EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming') AS streaming,
       extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8 AS commit_age_seconds`,
  );
  const { replayed_lsn, paused, streaming, commit_age_seconds } = rows[0];
  if (replayed_lsn === null) throw new Error('the server is not a standby');
  return { replayed_lsn, paused, streaming, commit_age_seconds: commit_age_seconds ?? undefined };
}

/** Up to where a running primary's log is safe on its disk. */
export async function readFlushedLsn(session: Session): Promise<Lsn> {
  const { rows } = await session.query('SELECT pg_current_wal_flush_lsn()::text AS lsn');
  parseLsn(rows[0].lsn);
  return rows[0].lsn;
}

const SEGMENT = /^[0-9A-F]{24}$/;
/** Beside the log, so that a segment gets its place by a rename: a server that runs must never read half of one. */
const LANDING = 'coppice-landing';

/** Names of the segments in a data directory's log. */
export function segmentsOf(dataDirectory: string): Promise<Set<string>> {
  return inDirectory(
    join(dataDirectory, 'pg_wal'),
    async (wal) => new Set((await readdir(wal)).filter((name) => SEGMENT.test(name))),
  );
}

/** The segments in a standby's log, but for the last: that may be one which it had only begun to receive. */
export async function settledSegments(dataDirectory: string): Promise<Set<string>> {
  return new Set([...(await segmentsOf(dataDirectory))].sort().slice(0, -1));
}

/** What was written to a stopped server's log is on disk. */
export function syncSegments(dataDirectory: string): Promise<void> {
  return inDirectory(join(dataDirectory, 'pg_wal'), async (wal) => {
    for (const name of await readdir(wal)) if (SEGMENT.test(name)) await syncPlainFile(join(wal, name));
  });
}

/**
 * Puts segments into the log of a standby, which may be running, in place of what it has under their names.
 *
 * @param put puts the segment of that name into the directory given
 * @returns how many were put
 */
export function landSegments(
  dataDirectory: string,
  names: readonly string[],
  put: (name: string, directory: string) => Promise<void>,
): Promise<number> {
  return inDirectory(dataDirectory, async (directory) => {
    await removeLanding(directory);
    await makeDirectoryLike(directory, LANDING);
    try {
      await inDirectory(join(directory, LANDING), (landing) =>
        inDirectory(join(directory, 'pg_wal'), async (wal) => {
          for (const name of names) {
            await put(name, landing);
            await rename(join(landing, name), join(wal, name));
          }
        }),
      );
    } finally {
      await removeLanding(directory);
    }
    return names.length;
  });
}

async function removeLanding(directory: string): Promise<void> {
  try {
    await inDirectory(join(directory, LANDING), async (landing) => {
      for (const name of await readdir(landing)) await unlink(join(landing, name));
    });
    await rmdir(join(directory, LANDING));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}
