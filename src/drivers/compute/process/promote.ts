import { closeSync, constants, fchownSync, openSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isInProduction } from './data-directory.ts';
import { isSameProcess, type ProcessIdentity, signalProcess, startSeconds } from './processes.ts';
import type { ComputeRecord } from './record.ts';
import { serverFile } from './server.ts';
import { ServerEnded } from './start.ts';

const ASK_EVERY_MS = 100;
const POLL_MS = 2;

/**
 * Ends a recovery at the end of the log, and waits for it: a file that the server looks for, and a signal that makes it
 * look (Postgres source, CheckPromoteSignal). `pg_promote()` needs a session, and who recovers may take none. It asks
 * again, since a server that is only starting removes what it finds.
 */
export async function promote(
  server: ProcessIdentity,
  { data_directory, owner }: Pick<ComputeRecord, 'data_directory' | 'owner'>,
  signal: AbortSignal,
): Promise<void> {
  const began_seconds = startSeconds(server);
  const file = join(data_directory, 'promote');
  for (let asked_at = 0; ; ) {
    const status = serverFile(server, data_directory, began_seconds)?.status;
    // A hot standby is ready, too.
    if (status === 'ready' && isInProduction(data_directory)) break;
    if (!isSameProcess(server)) throw new ServerEnded('the server ended while it recovered');
    signal.throwIfAborted();
    if ((status === 'standby' || status === 'ready') && Date.now() - asked_at >= ASK_EVERY_MS) {
      makeFile(file, owner);
      signalProcess(server, 'SIGUSR1');
      asked_at = Date.now();
    }
    await delay(POLL_MS);
  }
  // It was asked once more after it had begun.
  rmSync(file, { force: true });
}

function makeFile(path: string, owner: ComputeRecord['owner']): void {
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
  try {
    const file = openSync(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
    try {
      if (owner) fchownSync(file, owner.uid, owner.gid);
    } finally {
      closeSync(file);
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}
