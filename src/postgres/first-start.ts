import { lstat, readdir, rmdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { parseLsn } from '../domain/lsn.ts';
import { controlOfDurableCopy, readControlFile } from './control-file.ts';
import { inDirectory, readPlainFile, writeNewFile } from './plain-files.ts';
import { rollBackPrepared } from './prepared-transactions.ts';
import { stopScheduledJobs } from './scheduled-jobs.ts';
import type { OpenSession } from './session.ts';
import { detachSubscriptions } from './subscriptions.ts';
import { resetUnloggedRelations } from './unlogged-relations.ts';
import { walSegmentName } from './wal-segment.ts';

/**
 * A clone of a data directory would act as its parent: hold its slots, take over its subscriptions, end its prepared
 * transactions, run its jobs. What follows takes that from it before its first normal start.
 */

/** Belong to the server that ran on the parent's directory. */
const OF_A_SERVER = ['postmaster.pid', 'postmaster.opts', 'postmaster.pid.tmp'];
const WAL_SEGMENT = /^[0-9A-F]{24}$/;
/** `pg_subscription`, as long as nothing has rewritten it. */
const SUBSCRIPTIONS = 'global/6100';
const CONTROL_FILE_BYTES = 8192;

/**
 * What can be done in the files of a clone that was never started. Safe to run twice. Nothing is made durable.
 * @throws where the clone has tablespaces
 */
export async function cleanChildFiles(path: string): Promise<void> {
  await inDirectory(path, async (child) => {
    const tablespaces = await readdir(join(child, 'pg_tblspc'));
    if (tablespaces.length > 0) throw new Error(`the data directory has tablespaces, which are not supported: ${path}`);
    for (const name of OF_A_SERVER) await unlink(join(child, name)).catch(ignoreAbsent);
    await inDirectory(join(child, 'pg_replslot'), removeSlots);
    // Otherwise recovery does the rest, unlogged relations among it.
    if (!(await isAtRest(child))) return;
    await resetUnloggedRelations(child);
    await inDirectory(join(child, 'pg_wal'), async (wal) => removeOldSegments(child, wal));
  });
}

/** A slot is a directory of its state and of what was spilled for it. */
async function removeSlots(directory: string): Promise<void> {
  for (const slot of await readdir(directory)) {
    await inDirectory(join(directory, slot), async (path) => {
      for (const name of await readdir(path)) await unlink(join(path, name));
    });
    await rmdir(join(directory, slot));
  }
}

/** WAL that only the parent's archive and slots were waiting for; the child would archive it as its own. */
async function removeOldSegments(child: string, wal: string): Promise<void> {
  const { redoLsn, timeline, walSegmentBytes } = await readControlFile(child);
  const first = walSegmentName(timeline, parseLsn(redoLsn), walSegmentBytes);
  for (const name of await readdir(wal)) {
    if (WAL_SEGMENT.test(name) && name < first) await unlink(join(wal, name));
  }
}

/**
 * True when a clone has to be started once with quiet settings and be handed to `quietChild`. A clone of a parent that
 * was stopped cleanly and has nothing that acts needs no such start.
 * @param hasScheduler whether the distribution can run scheduled jobs
 */
export async function needsQuietStart(path: string, { hasScheduler }: { hasScheduler: boolean }): Promise<boolean> {
  return inDirectory(path, async (child) => {
    if (hasScheduler || !(await isAtRest(child))) return true;
    if ((await readdir(join(child, 'pg_twophase'))).length > 0) return true;
    // A clean stop has written everything, so an empty file is an empty table; when it is not there, it was rewritten.
    const subscriptions = await lstat(join(child, SUBSCRIPTIONS)).catch(ignoreAbsent);
    return subscriptions?.size !== 0;
  });
}

/**
 * Spares a copy of a running server the flush of each of its files before it replays: whoever copied it has made it
 * durable, and what was laid into it since is no loss, since a copy that does not become ready is made anew. Does
 * nothing to other directories. Safe to run twice; where it is killed, the copy is not to be used.
 */
export async function spareFlush(path: string): Promise<void> {
  await inDirectory(path, async (child) => {
    if (!(await lstat(join(child, 'backup_label')).catch(ignoreAbsent))) return;
    await inDirectory(join(child, 'global'), async (directory) => {
      const control = join(directory, 'pg_control');
      const bytes = controlOfDurableCopy(await readPlainFile(control, CONTROL_FILE_BYTES));
      await unlink(control);
      await writeNewFile(control, bytes);
    });
  });
}

/** Nothing has to be replayed. */
async function isAtRest(child: string): Promise<boolean> {
  if (await lstat(join(child, 'backup_label')).catch(ignoreAbsent)) return false;
  const { state } = await readControlFile(child);
  return state === 'shut down';
}

/**
 * The rest, in SQL, on a child that was started with quiet settings: prepared transactions rolled back, subscriptions
 * disabled and without a slot, scheduled jobs off. No publisher hears of it. Safe to run twice.
 */
export async function quietChild(open: OpenSession): Promise<void> {
  await using postgres = await open('postgres');
  // First, since their locks would hold up the others.
  await rollBackPrepared(open, postgres);
  await detachSubscriptions(open, postgres);
  await stopScheduledJobs(open, postgres);
}

function ignoreAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
