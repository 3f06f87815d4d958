import { randomBytes } from 'node:crypto';
import { readdir, rm, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { type Lsn, parseLsn } from '../domain/lsn.ts';
import { parseControlFile } from './control-file.ts';
import { copyPlainFile, inDirectory, readPlainFile, readPlainHead, writeNewFile } from './plain-files.ts';
import { bringHistoryFile, endSegmentAt } from './recovery.ts';
import type { OpenSession, Session } from './session.ts';
import { checkSegment, LONG_HEADER_BYTES } from './wal/pages.ts';
import { walSegmentNames } from './wal-segment.ts';

/** What a clone leaves out, in the words of the storage contract. */
export interface CloneSelection {
  readonly empty_directories: readonly string[];
  readonly omit_files: readonly string[];
}

/** What only the server that runs (or ran) on the directory knows; Postgres makes it anew at each start. */
const OF_A_SERVER: CloneSelection = {
  empty_directories: [
    ...['pg_dynshmem', 'pg_notify', 'pg_serial', 'pg_snapshots', 'pg_stat_tmp', 'pg_subtrans'],
    // Slots are the parent's; see `cleanChildFiles`.
    ...['pg_replslot', 'base/pgsql_tmp'],
  ],
  omit_files: [
    ...['postmaster.pid', 'postmaster.opts', 'postmaster.pid.tmp', 'current_logfiles', 'logrotate', 'promote'],
    ...['backup_label.old', 'tablespace_map.old', 'backup_manifest', 'postgresql.auto.conf.tmp'],
  ],
};

/** For a parent that is stopped: its WAL is needed, what its archiver still had to do is not. */
export const CLONE_OF_STOPPED: CloneSelection = {
  ...OF_A_SERVER,
  empty_directories: [...OF_A_SERVER.empty_directories, 'pg_wal/archive_status'],
};

/** For a running parent in backup mode: WAL that is copied while it is written is torn; `completeClone` brings it. */
export const CLONE_OF_RUNNING: CloneSelection = {
  empty_directories: [...OF_A_SERVER.empty_directories, 'pg_wal'],
  omit_files: [...OF_A_SERVER.omit_files, 'backup_label', 'tablespace_map', 'standby.signal', 'recovery.signal'],
};

/** What a clone that was copied meanwhile needs to become one moment of its parent: the one at `stop_lsn`. */
export interface BackupEnd {
  /** The text of `backup_label`. */
  readonly label: string;
  /** The whole of `pg_control`; undefined: the copied one stands. */
  readonly control?: Buffer;
  /** Replay starts here. */
  readonly start_lsn: Lsn;
  /** The clone will hold every record that starts before it. */
  readonly stop_lsn: Lsn;
  /** By the server's clock; no transaction of the clone was committed later. */
  readonly stopped_at: Date;
  readonly timeline: number;
  readonly wal_segment_bytes: number;
}

/** A backup that goes on in a server. Whoever started it calls `abandon` in the end. */
export interface Backup {
  /** Ends it, after the files were copied. The WAL stays until `abandon`. */
  finish(): Promise<BackupEnd>;
  /** Lets go of the WAL, and gives up a backup that is not finished. Safe to call at any time. */
  abandon(): Promise<void>;
}

/** The start is a checkpoint of whatever is dirty. */
const START_TIMEOUT_MS = 600_000;
const FINISH_TIMEOUT_MS = 60_000;
const CONTROL_FILE = 'global/pg_control';
const CONTROL_FILE_BYTES = 8192;
const CONTROL_FILE_TRIES = 20;
/** `configuration_limit_exceeded`: the customer has used up all slots. */
const NO_SLOT_LEFT = '53400';

/**
 * Puts a server into backup mode: from now on its files may be copied one after the other while it goes on writing.
 * It ends with the session, however that ends.
 * @throws when the server is a standby, or when its checkpoint takes more than ten minutes
 */
export async function startBackup(open: OpenSession): Promise<Backup> {
  const session = await open('postgres');
  try {
    const { rows } = await session.query('SELECT pg_is_in_recovery() AS standby');
    if (rows[0].standby) throw new Error('a standby cannot be cloned while it runs; clone its primary');
    await session.query(`SET statement_timeout = ${START_TIMEOUT_MS}`);
    await holdWal(session);
    await session.query("SELECT pg_backup_start('coppice', fast => true)");
  } catch (error) {
    await session[Symbol.asyncDispose]();
    throw error;
  }
  return { finish: () => finish(session), abandon: async () => session[Symbol.asyncDispose]() };
}

/**
 * Keeps the server from removing WAL as long as the session lives. Without a free slot the backup goes on all the same:
 * WAL that two checkpoints have removed meanwhile is missed when the clone is completed.
 */
export async function holdWal(session: Session): Promise<void> {
  const name = `coppice_backup_${randomBytes(4).toString('hex')}`;
  try {
    await session.query(
      'SELECT pg_create_physical_replication_slot($1, immediately_reserve => true, temporary => true)',
      [name],
    );
  } catch (error) {
    if ((error as { code?: string }).code !== NO_SLOT_LEFT) throw error;
  }
}

async function finish(session: Session): Promise<BackupEnd> {
  await session.query(`SET statement_timeout = ${FINISH_TIMEOUT_MS}`);
  const { rows: settings } = await session.query("SELECT setting FROM pg_settings WHERE name = 'wal_segment_size'");
  const { rows } = await session.query(
    `SELECT lsn::text AS stop_lsn, labelfile AS label, spcmapfile AS tablespaces, clock_timestamp() AS stopped_at
       FROM pg_backup_stop(wait_for_archive => false)`,
  );
  const { stop_lsn, label, tablespaces, stopped_at } = rows[0];
  if (tablespaces) throw new Error('the server has tablespaces, which are not supported');
  const [, start_lsn = ''] = /^START WAL LOCATION: (\S+) /m.exec(label) ?? [];
  const [, timeline] = /^START TIMELINE: (\d+)$/m.exec(label) ?? [];
  parseLsn(start_lsn);
  const wal_segment_bytes = Number(settings[0].setting);
  return { label, start_lsn, stop_lsn, stopped_at, timeline: Number(timeline), wal_segment_bytes };
}

/** Puts the segment of that name into the directory given, as a file that may be changed. */
export type BringSegment = (name: string, directory: string) => Promise<void>;

/**
 * Makes a copy of a running parent's files a data directory that starts as its parent was at `stop_lsn`. The backup
 * must be finished and not yet abandoned. Safe to run twice. Nothing is made durable.
 *
 * @param bring for WAL that the parent may have removed; default: only what it still has is used
 * @throws when the parent has removed WAL that is needed; nothing less than a new backup helps then
 */
export async function completeClone(
  parentPath: string,
  childPath: string,
  end: BackupEnd,
  bring?: BringSegment,
): Promise<void> {
  await inDirectory(parentPath, (parent) =>
    inDirectory(childPath, async (child) => {
      const control = end.control ?? (await wholeControlFile(child, parent));
      await replaceFile(join(child, CONTROL_FILE), control);
      await inDirectory(join(parent, 'pg_wal'), (from) =>
        inDirectory(join(child, 'pg_wal'), (to) => bringWal(from, to, end, control, bring ?? fromParent(from, end))),
      );
      await rm(join(child, 'backup_label'), { force: true });
      await writeNewFile(join(child, 'backup_label'), end.label);
    }),
  );
}

/**
 * The bytes of the control file of one of these directories. Read or copied while it was written it may be torn; then it
 * is read again, from the last one.
 */
export async function wholeControlFile(...directories: readonly [string, ...string[]]): Promise<Buffer> {
  for (let tries = 0; ; tries++) {
    const directory = directories[Math.min(tries, directories.length - 1)]!;
    const bytes = await readPlainFile(join(directory, CONTROL_FILE), CONTROL_FILE_BYTES);
    try {
      parseControlFile(bytes);
      return bytes;
    } catch (error) {
      if (tries === CONTROL_FILE_TRIES) throw error;
    }
  }
}

async function replaceFile(path: string, bytes: Buffer): Promise<void> {
  await rm(path, { force: true });
  await writeNewFile(path, bytes);
}

const fromParent =
  (from: string, { wal_segment_bytes }: BackupEnd): BringSegment =>
  async (name, directory) => {
    await copyPlainFile(join(from, name), join(directory, name), wal_segment_bytes).catch(
      (error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error;
        throw new Error(`WAL segment ${name} was removed while its server was cloned; clone it again`, {
          cause: error,
        });
      },
    );
  };

/**
 * The segments from start to stop, each of which says what its name says. The server had switched to another, so that it
 * writes to none of them any more.
 */
async function bringWal(from: string, to: string, end: BackupEnd, control: Buffer, bring: BringSegment): Promise<void> {
  const { start_lsn, stop_lsn, timeline, wal_segment_bytes } = end;
  for (const entry of await readdir(to, { withFileTypes: true })) {
    if (!entry.isDirectory()) await unlink(join(to, entry.name));
  }
  await bringHistoryFile(from, to, timeline);
  const stop = parseLsn(stop_lsn);
  const names = walSegmentNames(timeline, parseLsn(start_lsn), stop, wal_segment_bytes);
  const { systemIdentifier } = parseControlFile(control);
  for (const name of names) {
    await bring(name, to);
    const { head, size_bytes } = await readPlainHead(join(to, name), LONG_HEADER_BYTES);
    checkSegment(name, head, { systemIdentifier, wal_segment_bytes }, size_bytes);
  }
  // Transactions that ended between the stop and the switch lie behind it.
  await endSegmentAt(join(to, names.at(-1)!), stop, wal_segment_bytes);
}
