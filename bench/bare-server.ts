import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, copyFileSync, openSync, readFileSync, readlinkSync } from 'node:fs';
import { chmod, chown, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { readPostmasterFile } from '../src/drivers/compute/process/data-directory.ts';
import { makeDirectories } from '../src/drivers/compute/process/directories.ts';
import { type ComputeLayout, computeLayout, serverArguments } from '../src/drivers/compute/process/layout.ts';
import { readRecord } from '../src/drivers/compute/process/record.ts';
import { timeFirstRow } from './first-row.ts';
import type { Installation } from './installation.ts';

/** Postgres without Coppice: what is started, on what, and as whom. */
export interface BareServer {
  readonly program: string;
  readonly data_directory: string;
  readonly owner: { readonly uid: number; readonly gid: number } | undefined;
  readonly layout: ComputeLayout;
  readonly database: string;
}

/** A directory for the configuration and the sockets of bare servers, removed with `[Symbol.asyncDispose]`. */
export async function makeBareDirectory(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'bare-'));
  await chmod(path, 0o711);
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** Where the program of a compute that runs now lies, and everything else that its driver knows of it. */
export function inspectCompute({ data_directory }: Installation, endpoint_id: string) {
  const layout = computeLayout(
    { stateDir: join(data_directory, 'computes'), runDir: join(data_directory, 'run') },
    endpoint_id,
  );
  const record = readRecord(layout.record);
  const pid = record && readPostmasterFile(record.data_directory)?.pid;
  if (!record || pid === undefined) throw new Error(`${endpoint_id} does not run`);
  return { layout, record, program: readlinkSync(`/proc/${pid}/exe`) };
}

/**
 * The very same server as the one of a compute that runs now: its binary, its data directory, its configuration, its
 * user. The configuration is a copy, and the socket lies elsewhere, since Coppice stops what it takes for a stray.
 */
export async function bareServerOf(
  installation: Installation,
  endpoint_id: string,
  directory: string,
): Promise<BareServer> {
  const { layout: original, record, program } = inspectCompute(installation, endpoint_id);
  const { data_directory, owner } = record;
  const layout = await layConfiguration(original, directory, owner);
  return { program, data_directory, owner, layout, database: 'neondb' };
}

/** Copies the configuration of a compute to a place of its own, for a server that runs as `owner`. */
export async function layConfiguration(
  original: ComputeLayout,
  directory: string,
  owner: BareServer['owner'],
): Promise<ComputeLayout> {
  const layout = computeLayout({ stateDir: join(directory, 'computes'), runDir: join(directory, 'run') }, original.id);
  makeDirectories(layout, owner);
  for (const name of ['postgresql.conf', 'pg_hba.conf', 'pg_ident.conf']) {
    const copy = join(layout.directory, name);
    copyFileSync(join(original.directory, name), copy);
    await chmod(copy, 0o640);
    if (owner) await chown(copy, 0, owner.gid);
  }
  return layout;
}

/**
 * Milliseconds from the start of the server's process to the first row over its Unix socket, without a password. It
 * is looked for each millisecond whether the server says that it is ready. Stopped again before this returns.
 */
export async function bareFirstRow(server: BareServer): Promise<number> {
  const began = performance.now();
  return withBareServer(server, async () => {
    const ready_ms = performance.now() - began;
    const { layout, database } = server;
    const config = { host: layout.socket_directory, port: 5432, user: 'cloud_admin', database };
    return ready_ms + (await timeFirstRow(config));
  });
}

function spawnBare({ program, data_directory, owner, layout }: BareServer): ChildProcess {
  const log = openSync(layout.log, 'a', 0o600);
  try {
    return spawn(program, serverArguments(layout, data_directory), {
      ...owner,
      cwd: '/',
      env: {},
      stdio: ['ignore', log, log],
    });
  } finally {
    closeSync(log);
  }
}

async function untilReady(child: ChildProcess, { data_directory, layout }: BareServer): Promise<void> {
  for (;;) {
    const file = readPostmasterFile(data_directory);
    if (file?.pid === child.pid && file?.status === 'ready') return;
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new Error(`the bare server ended: ${readFileSync(layout.log, 'utf8').slice(-2000)}`);
    }
    await delay(1);
  }
}

/** Runs a bare server for as long as `use` runs, and stops it cleanly. */
export async function withBareServer<T>(server: BareServer, use: () => Promise<T>): Promise<T> {
  const child = spawnBare(server);
  try {
    await untilReady(child, server);
    return await use();
  } finally {
    await stopFast(child);
  }
}

async function stopFast(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGINT');
  await ended;
}
