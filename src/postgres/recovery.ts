import { constants } from 'node:fs';
import { open, readdir, rm, truncate, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { type Lsn, parseLsn } from '../domain/lsn.ts';
import { readControlFile } from './control-file.ts';
import { copyPlainFile, inDirectory, readPlainFile, syncPlainFile, writeNewFile } from './plain-files.ts';
import { walSegmentNames } from './wal-segment.ts';

/** Where a server that is started on a data directory begins to replay. */
export interface RecoveryStart {
  readonly redo_lsn: Lsn;
  /** Postgres's own, which counts promotions. */
  readonly pg_timeline: number;
  readonly wal_segment_bytes: number;
}

const LABEL_BYTES = 64 * 1024;
const HISTORY_BYTES = 1024 * 1024;
const AT_ONCE = 8;
const WAL_SEGMENT = /^[0-9A-F]{24}$/;
const HISTORY_FILE = /^[0-9A-F]{8}\.history$/;

/** Of a stopped server's directory, or of a copy of one that was in backup mode. */
export async function recoveryStart(dataDirectory: string): Promise<RecoveryStart> {
  const { redoLsn, timeline, walSegmentBytes } = await readControlFile(dataDirectory);
  const control = { redo_lsn: redoLsn, pg_timeline: timeline, wal_segment_bytes: walSegmentBytes };
  const label = await inDirectory(dataDirectory, (directory) =>
    readPlainFile(join(directory, 'backup_label'), LABEL_BYTES).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
      return undefined;
    }),
  );
  const [, redo_lsn] = (label && /^START WAL LOCATION: (\S+) /m.exec(label.toString())) || [];
  return redo_lsn ? { ...control, redo_lsn } : control;
}

/**
 * Readies a copy of a data directory to be replayed to a cut and no further: its log is that from where replay starts up
 * to the cut, with zeros behind, where Postgres sees the end. Neither a recovery target (it fails behind the last commit,
 * or replays one too many) nor `restore_command` (a process for each segment) is used. Safe to run twice.
 *
 * @param put puts the segment of that name into the directory given, as a file that may be changed
 */
export async function layLog(
  dataDirectory: string,
  cut: Lsn,
  put: (name: string, directory: string) => Promise<void>,
): Promise<void> {
  const { redo_lsn, pg_timeline, wal_segment_bytes } = await recoveryStart(dataDirectory);
  const end = parseLsn(cut);
  if (end < parseLsn(redo_lsn)) throw new Error(`replay starts at ${redo_lsn}, behind the point ${cut}`);
  await inDirectory(dataDirectory, async (directory) => {
    await inDirectory(join(directory, 'pg_wal'), async (wal) => {
      for (const entry of await readdir(wal, { withFileTypes: true })) {
        // Pages from before the last promotion are known to be of this log by its history file.
        if (!entry.isDirectory() && !HISTORY_FILE.test(entry.name)) await unlink(join(wal, entry.name));
      }
      const names = walSegmentNames(pg_timeline, parseLsn(redo_lsn), end, wal_segment_bytes);
      await forAll(names, (name) => put(name, wal));
      await endSegmentAt(join(wal, names.at(-1)!), end, wal_segment_bytes);
    });
    await rm(join(directory, 'standby.signal'), { force: true });
    await writeNewFile(join(directory, 'standby.signal'), '');
  });
}

/**
 * A server that is started on a directory does not hand over the log that was laid into it, which is another's. Made
 * before the start; safe to run twice.
 */
export async function markArchived(dataDirectory: string): Promise<void> {
  await inDirectory(join(dataDirectory, 'pg_wal'), async (wal) => {
    const names = (await readdir(wal)).filter((name) => WAL_SEGMENT.test(name) || HISTORY_FILE.test(name));
    await inDirectory(join(wal, 'archive_status'), async (status) => {
      const there = new Set(await readdir(status));
      const missing = names.map((name) => `${name}.done`).filter((name) => !there.has(name));
      await forAll(missing, (name) => writeNewFile(join(status, name), ''));
    });
  });
}

/**
 * The log that was laid into a directory is on disk: the server that replays it goes on from it without writing out what it
 * replayed, and would need it again after a loss of power. Safe beside that server, which removes only what it needs no more.
 */
export async function flushLog(dataDirectory: string): Promise<void> {
  await inDirectory(join(dataDirectory, 'pg_wal'), async (wal) => {
    const names = (await readdir(wal)).filter((name) => WAL_SEGMENT.test(name) || HISTORY_FILE.test(name));
    await forAll(names, (name) =>
      syncPlainFile(join(wal, name)).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error;
      }),
    );
    const directory = await open(wal, constants.O_RDONLY | constants.O_DIRECTORY);
    await directory.sync().finally(() => directory.close());
  });
}

/** A segment is a dozen short waits and little work, so that several are had at once. None is under way when this throws. */
async function forAll(names: readonly string[], put: (name: string) => Promise<void>): Promise<void> {
  const left = names.values();
  let failed = false;
  const bring = async () => {
    for (const name of left) {
      if (failed) return;
      await put(name).catch((error) => {
        failed = true;
        throw error;
      });
    }
  };
  const ended = await Promise.allSettled(Array.from({ length: AT_ONCE }, bring));
  for (const one of ended) if (one.status === 'rejected') throw one.reason;
}

/**
 * Copies the history file of a Postgres timeline beside its segments: the page that a promotion went on in still names
 * the timeline before, and is refused where that is not known to lead to this one. The first has none.
 */
export async function bringHistoryFile(from: string, to: string, pg_timeline: number): Promise<void> {
  const name = `${pg_timeline.toString(16).toUpperCase().padStart(8, '0')}.history`;
  await copyPlainFile(join(from, name), join(to, name), HISTORY_BYTES).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
}

/** The log ends where zeros begin. */
export async function endSegmentAt(path: string, position: bigint, wal_segment_bytes: number): Promise<void> {
  await truncate(path, Number((position - 1n) % BigInt(wal_segment_bytes)) + 1);
  await truncate(path, wal_segment_bytes);
}

/**
 * Where the replay of a data directory ended that was promoted since: the last line of the history file that the
 * promotion wrote. The control file tells of the promotion only after the next checkpoint.
 */
export async function replayedTo(dataDirectory: string): Promise<Lsn> {
  return inDirectory(join(dataDirectory, 'pg_wal'), async (wal) => {
    const newest = (await readdir(wal))
      .filter((name) => /^[0-9A-F]{8}\.history$/.test(name))
      .sort()
      .at(-1);
    if (!newest) throw new Error(`${dataDirectory} was not promoted`);
    const text = (await readPlainFile(join(wal, newest), HISTORY_BYTES)).toString();
    const [, lsn] = /^\d+\t(\S+)/.exec(text.trim().split('\n').at(-1) ?? '') ?? [];
    if (!lsn) throw new Error(`${newest} does not tell where its Postgres timeline begins`);
    parseLsn(lsn);
    return lsn;
  });
}
