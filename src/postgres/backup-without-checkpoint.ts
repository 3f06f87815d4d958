import { type Lsn, parseLsn } from '../domain/lsn.ts';
import { type Backup, type BackupEnd, holdWal, wholeControlFile } from './backup.ts';
import { type ControlFile, controlOfStandby, parseControlFile } from './control-file.ts';
import { inDirectory } from './plain-files.ts';
import type { OpenSession, Session } from './session.ts';
import { switchWal } from './switch-wal.ts';
import { walSegmentName } from './wal-segment.ts';

const TIMEOUT_MS = 60_000;
const MIB = 1024 ** 2;
/** So much WAL is always replayed: that takes a second or so, and no checkpoint is free. */
const REPLAY_BYTES_MIN = 64n * BigInt(MIB);
/**
 * A checkpoint writes no more than the server's buffers, and holds up whoever works there; replay holds up only whoever
 * waits for the copy, and grows without a bound. So it is worth this much of the buffers.
 */
const REPLAY_PER_BUFFER = 2n;
/** More than this is not brought together, whatever a server says of itself. */
const REPLAY_BYTES_MAX = 1024n * BigInt(MIB);

/**
 * Begins a backup of a running server that starts at the last checkpoint it made by itself, so that none is forced on it.
 * Whoever copies the files completes the copy as after `startBackup`; it is then, for Postgres, a backup of a standby,
 * which has no checkpoint of its own either: it must replay up to where its control file says that the standby was, or
 * it does not start.
 *
 * Files that are copied later than the control file was read hold what was before that checkpoint. Whatever was changed
 * since is in the WAL from its redo position on, and each page as a whole with its first change. A page is written when
 * its WAL is on disk, so WAL up to a position that is read after the last file was copied makes all of them whole.
 *
 * @returns undefined where a checkpoint is better: the last one is long ago, or the server does not promise the above
 * @throws when the server is a standby
 */
export async function startBackupWithoutCheckpoint(open: OpenSession, parentPath: string): Promise<Backup | undefined> {
  const session = await open('postgres');
  let begun = false;
  try {
    await session.query(`SET statement_timeout = ${TIMEOUT_MS}`);
    // Before the control file is read, so that what a later checkpoint removes is held. What an unfinished one may remove
    // still is looked for in the archive, too.
    await holdWal(session);
    const bytes = await inDirectory(parentPath, (parent) => wholeControlFile(parent));
    const control = parseControlFile(bytes);
    begun = isFit(control) && (await isRecent(session, control));
    if (!begun) return undefined;
    const finish = () => finishWithoutCheckpoint(session, bytes, control);
    return { finish, abandon: async () => session[Symbol.asyncDispose]() };
  } finally {
    if (!begun) await session[Symbol.asyncDispose]();
  }
}

/** The server's last checkpoint is one of its own, and a page that is torn, or was changed by a hint, is in the WAL. */
const isFit = ({ state, minRecoveryLsn, walLevel, dataChecksums, fullPageWrites }: ControlFile): boolean =>
  state === 'in production' && !minRecoveryLsn && walLevel !== 'minimal' && dataChecksums && fullPageWrites;

async function isRecent(session: Session, { redoLsn, timeline }: ControlFile): Promise<boolean> {
  const { rows } = await session.query(
    `SELECT pg_current_wal_insert_lsn()::text AS lsn, pg_walfile_name(pg_current_wal_insert_lsn()) AS segment,
       pg_size_bytes(current_setting('shared_buffers'))::text AS buffer_bytes`,
  );
  const { lsn, segment, buffer_bytes } = rows[0];
  // Just promoted: the checkpoint is still that of the Postgres timeline before.
  if (Number.parseInt(segment.slice(0, 8), 16) !== timeline) return false;
  const replay_bytes = parseLsn(lsn) - parseLsn(redoLsn);
  const worth_bytes = REPLAY_PER_BUFFER * BigInt(buffer_bytes);
  const most_bytes = worth_bytes > REPLAY_BYTES_MIN ? worth_bytes : REPLAY_BYTES_MIN;
  return replay_bytes >= 0n && replay_bytes <= most_bytes && replay_bytes <= REPLAY_BYTES_MAX;
}

/** Pushes the WAL past all that was copied, into another segment, and says what the copy has to replay. */
async function finishWithoutCheckpoint(session: Session, bytes: Buffer, control: ControlFile): Promise<BackupEnd> {
  const { redoLsn, checkpointLsn, timeline, walSegmentBytes: wal_segment_bytes } = control;
  const { lsn: stop_lsn, at: stopped_at, full_page_writes } = await switchWal(session, wal_segment_bytes);
  if (!full_page_writes) throw new Error('the server writes no full pages to its log');
  const replay_bytes = parseLsn(stop_lsn) - parseLsn(redoLsn);
  if (replay_bytes < 0n || replay_bytes > 2n * REPLAY_BYTES_MAX) {
    throw new Error(`the server wrote ${replay_bytes} bytes of log since its last checkpoint`);
  }
  return {
    label: labelOf({ redoLsn, checkpointLsn, timeline, wal_segment_bytes, stopped_at }),
    control: controlOfStandby(bytes, stop_lsn),
    start_lsn: redoLsn,
    ...{ stop_lsn, stopped_at, timeline, wal_segment_bytes },
  };
}

/** As `build_backup_content` of Postgres writes it. */
function labelOf(of: {
  redoLsn: Lsn;
  checkpointLsn: Lsn;
  timeline: number;
  wal_segment_bytes: number;
  stopped_at: Date;
}): string {
  const { redoLsn, checkpointLsn, timeline, wal_segment_bytes, stopped_at } = of;
  return [
    `START WAL LOCATION: ${redoLsn} (file ${walSegmentName(timeline, parseLsn(redoLsn), wal_segment_bytes)})`,
    `CHECKPOINT LOCATION: ${checkpointLsn}`,
    'BACKUP METHOD: streamed',
    'BACKUP FROM: standby',
    `START TIME: ${stopped_at.toISOString().slice(0, 19).replace('T', ' ')} UTC`,
    'LABEL: coppice',
    `START TIMELINE: ${timeline}`,
    '',
  ].join('\n');
}
