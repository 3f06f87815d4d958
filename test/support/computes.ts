import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';
import type { ComputeRef, ComputeSpec } from '../../src/drivers/compute/contract.ts';
import {
  createProcessDriver,
  type ProcessDriver,
  type ProcessDriverOptions,
} from '../../src/drivers/compute/process/driver.ts';
import { pgHba, pgIdent } from '../../src/postgres/access.ts';
import { openNursery } from './postgres.ts';

const run = promisify(execFile);
const CALLER = fileURLToPath(new URL('./compute-caller.ts', import.meta.url));

/** Computes of one test file on real servers; everything is gone when it is disposed of. */
export interface Computes {
  readonly directory: string;
  readonly stateDir: string;
  readonly runDir: string;
  readonly driver: ProcessDriver;
  /** Another driver on the same directories, as after a restart of Coppice. */
  newDriver(options?: Partial<ProcessDriverOptions>): ProcessDriver;
  /** A compute on a new volume of its own. */
  newSpec(major: number, options?: Partial<SpecOptions>): Promise<ComputeSpec>;
  /** A process of its own that calls the driver's `ensureRunning`, and says so on standard output when it does and has. */
  callFromOutside(spec: ComputeSpec): ChildProcess;
  [Symbol.asyncDispose](): Promise<void>;
}

interface SpecOptions {
  readonly conf: string;
  readonly hba: string;
  /** A data directory that is copied, with whatever the server left in it. */
  readonly from: ComputeSpec;
}

const CONF = 'shared_buffers = 16MB\nlog_timezone = UTC\nlc_messages = C\n';

export async function openComputes(options: Partial<ProcessDriverOptions> = {}): Promise<Computes> {
  const nursery = await openNursery();
  const { directory } = nursery;
  const [stateDir, runDir] = [join(directory, 'state'), join(directory, 'run')];
  const newDriver = (more: Partial<ProcessDriverOptions> = {}) =>
    createProcessDriver({ stateDir, runDir, ...options, ...more });
  const driver = newDriver();
  let made = 0;
  return {
    directory,
    stateDir,
    runDir,
    driver,
    newDriver,
    async newSpec(major, { conf = '', hba = pgHba(), from } = {}) {
      const cluster = from ? undefined : await nursery.plant(major);
      const path = cluster?.path ?? nursery.newPath();
      if (from) await run('cp', ['-a', '--reflink=auto', from.data_directory, path]);
      const { distribution, owner } = cluster ?? from!;
      made += 1;
      return {
        id: `ep-${major}-${made}`,
        distribution,
        data_directory: path,
        owner,
        files: { 'postgresql.conf': CONF + conf, 'pg_hba.conf': hba, 'pg_ident.conf': pgIdent() },
        size: 0.25,
      };
    },
    callFromOutside: (spec) =>
      spawn(process.execPath, [CALLER, JSON.stringify({ stateDir, runDir, spec })], {
        detached: true,
        stdio: ['ignore', 'pipe', 'inherit'],
      }),
    async [Symbol.asyncDispose]() {
      const refs = await driver.list();
      const known = readdirSync(stateDir).map((id) => ({ driver: driver.name, id }));
      for (const ref of [...refs, ...known]) await driver.ensureRemoved(ref);
      await nursery[Symbol.asyncDispose]();
    },
  };
}

/** A connection as the platform's superuser. It ends when the server does, without a word. */
export async function enter(
  driver: ProcessDriver,
  { id }: ComputeRef | ComputeSpec,
): Promise<pg.Client & AsyncDisposable> {
  const client = new pg.Client({ host: driver.socketDirectory(id), user: 'cloud_admin', database: 'neondb' });
  client.on('error', () => undefined);
  await client.connect();
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end().catch(() => undefined) });
}

/** The first column of the first row. */
export async function ask(driver: ProcessDriver, compute: ComputeRef | ComputeSpec, sql: string): Promise<unknown> {
  await using client = await enter(driver, compute);
  const { rows } = await client.query({ text: sql, rowMode: 'array' });
  return rows[0]?.[0];
}

/** The pid of the server that holds a data directory, as it says itself. */
export const postmasterPid = ({ data_directory }: ComputeSpec): number =>
  Number(readFileSync(join(data_directory, 'postmaster.pid'), 'utf8').split('\n')[0]);

/** Processes whose working directory is a compute's data directory. */
export async function processesOf({ data_directory }: ComputeSpec): Promise<{ pid: number; title: string }[]> {
  const { stdout } = await run('sh', ['-c', 'ls -l /proc/[0-9]*/cwd 2>/dev/null || true'], { maxBuffer: 1 << 24 });
  return stdout
    .split('\n')
    .filter((line) => line.endsWith(` -> ${data_directory}`))
    .map((line) => Number(/\/proc\/(\d+)\/cwd/.exec(line)?.[1]))
    .map((pid) => ({ pid, title: titleOf(pid) }))
    .filter(({ title }) => title !== '');
}

/** Those that no other of them has started: one, where one server runs. */
export async function serversOf(spec: ComputeSpec): Promise<{ pid: number; title: string }[]> {
  const all = await processesOf(spec);
  const pids = new Set(all.map(({ pid }) => pid));
  return all.filter(({ pid }) => !pids.has(parentOf(pid)));
}

function parentOf(pid: number): number {
  try {
    return Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
  } catch {
    return 0;
  }
}

function titleOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
  } catch {
    return '';
  }
}
