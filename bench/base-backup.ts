import { execFile } from 'node:child_process';
import { appendFile, chmod, chown, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { parseLsn } from '../src/domain/lsn.ts';
import { archiveOf } from '../src/main/parts.ts';
import { walSegmentNames } from '../src/postgres/wal-segment.ts';
import { until } from '../test/support/until.ts';
import { bareFirstRow, inspectCompute, layConfiguration, makeBareDirectory } from './bare-server.ts';
import { type BusyParent, openSocket } from './busy-parent.ts';
import type { Installation } from './installation.ts';

const run = promisify(execFile);
const WAL_SEGMENT_BYTES = 1024 ** 2;
const TAKE_IN_TIMEOUT_MS = 120_000;
/** Behind the last one needed, since a server asks for more before it believes in the end. */
const SEGMENTS_MORE = 4;

/** A base backup beside the volumes, and the log from it to a point. */
export interface BaseBackup extends AsyncDisposable {
  readonly took_ms: number;
  /** Restores it to the point by Postgres's own means, to the first row, and removes what it restored. */
  restore(): Promise<number>;
}

/**
 * Copies the files of a running server in backup mode, which is what pg_basebackup does, and waits until so much has
 * happened as is to be replayed. (The pg_basebackup of a distribution that is older than the server refuses it, and the
 * servers that come from npm have none of their own.) The backup, its log and what is restored lie beside the pool, on the same disk.
 */
export async function takeBaseBackup(
  installation: Installation,
  parent: BusyParent,
  { replayed_ms }: { replayed_ms: number },
): Promise<BaseBackup> {
  const directory = await mkdtemp(join(tmpdir(), 'base-'));
  await using undo = new AsyncDisposableStack();
  undo.defer(() => rm(directory, { recursive: true, force: true }));
  const [base, log, restored] = ['base', 'log', 'restored'].map((name) => join(directory, name)) as [
    string,
    string,
    string,
  ];
  // The server that is restored runs as the project's user.
  await chmod(directory, 0o711);
  await mkdir(log, { mode: 0o755 });
  if (parent.owner) await chown(log, parent.owner.uid, parent.owner.gid);
  const client = await openSocket(parent.socket_directory);
  undo.defer(() => client.end());
  const began = performance.now();
  const { rows: started } = await client.query("select pg_backup_start('bench', true)::text as lsn");
  await copyTree(parent.volume, base);
  const { rows: stopped } = await client.query('select labelfile as label from pg_backup_stop(false)');
  const took_ms = performance.now() - began;
  await cleanBackup(base, stopped[0].label, parent.owner);
  await delay(replayed_ms);
  const { rows: reached } = await client.query('select pg_current_wal_flush_lsn()::text as lsn');
  const target = reached[0].lsn;
  await bringLog(installation, parent, { from: started[0].lsn, to: target, log });
  const restore = () => restoreOnce(installation, parent, { base, log, restored, target });
  await client.end();
  const held = undo.move();
  return { took_ms, restore, [Symbol.asyncDispose]: () => held.disposeAsync() };
}

/** Files that go away meanwhile are no matter, here as in pg_basebackup. */
async function copyTree(from: string, to: string): Promise<void> {
  await run('cp', ['-a', '--reflink=never', from, to], { maxBuffer: 64 * 1024 ** 2 }).catch((error) => {
    const lines = String(error.stderr).trim().split('\n');
    if (!lines.every((line) => line.includes('No such file'))) throw error;
  });
}

async function cleanBackup(base: string, label: string, owner: BusyParent['owner']): Promise<void> {
  for (const name of ['postmaster.pid', 'postmaster.opts', 'pg_wal', 'pg_replslot']) {
    await rm(join(base, name), { recursive: true, force: true });
  }
  const made = [join(base, 'pg_wal'), join(base, 'pg_replslot')];
  for (const path of made) await mkdir(path, { mode: 0o700 });
  for (const name of ['backup_label', 'recovery.signal']) {
    const path = join(base, name);
    await writeFile(path, name === 'backup_label' ? label : '', { mode: 0o600 });
    made.push(path);
  }
  if (owner) for (const path of made) await chown(path, owner.uid, owner.gid);
}

/** The log as an ordinary archive has it: in one directory, under its names. */
async function bringLog(
  { data_directory }: Installation,
  { timeline_id }: BusyParent,
  { from, to, log }: { from: string; to: string; log: string },
): Promise<void> {
  const archive = await archiveOf(data_directory);
  const end = parseLsn(to) + BigInt(SEGMENTS_MORE * WAL_SEGMENT_BYTES);
  const names = walSegmentNames(1, parseLsn(from), end, WAL_SEGMENT_BYTES);
  const archived = async () => {
    const there = new Set((await archive.list(timeline_id)).map(({ name }) => name));
    return names.every((name) => there.has(name));
  };
  const waiting = { what: 'the log to be archived', timeout_ms: TAKE_IN_TIMEOUT_MS, interval_ms: 1000 };
  await until(archived, waiting);
  for (const name of names) await archive.copyTo(timeline_id, name, log);
}

async function restoreOnce(
  installation: Installation,
  { project, owner }: BusyParent,
  { base, log, restored, target }: { base: string; log: string; restored: string; target: string },
): Promise<number> {
  await using bare = await makeBareDirectory();
  const { layout: original, program } = inspectCompute(installation, project.endpoint_id);
  const layout = await layConfiguration(original, bare.path, owner);
  const settings = {
    restore_command: `cp ${log}/%f %p`,
    recovery_target_lsn: target,
    recovery_target_action: 'promote',
    archive_mode: 'off',
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = '${value}'\n`);
  await appendFile(join(dirname(layout.log), 'postgresql.conf'), lines.join(''));
  try {
    const began = performance.now();
    await copyTree(base, restored);
    const copied_ms = performance.now() - began;
    const server = { program, data_directory: restored, owner, layout, database: 'neondb' };
    return copied_ms + (await bareFirstRow(server));
  } finally {
    await rm(restored, { recursive: true, force: true });
  }
}
