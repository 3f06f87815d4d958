import { execFile } from 'node:child_process';
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { makeDataDirectory, removeDataDirectory, startCoppice, type TestCoppice } from '../test/support/coppice.ts';
import { until } from '../test/support/until.ts';
import { requireFreeSpace } from './machine.ts';
import type { MeasureOptions } from './section.ts';

const run = promisify(execFile);
const PROGRAM = fileURLToPath(new URL('../bin/coppice.ts', import.meta.url));
const GIB = 1024 ** 3;
/** Stays free on the disk beside the pool. */
const MARGIN_BYTES = 25 * GIB;
/** What a stop, a deletion or a large fill may take. */
const PATIENCE_MS = 300_000;
/** Between the end of what came before and a measurement, so that the one is not measured with the other. */
const QUIET_MS = 100;

/** A whole Coppice with a pool of its own, which goes with it. */
export interface Installation extends AsyncDisposable {
  readonly coppice: TestCoppice;
  readonly data_directory: string;
  /** Where the pool is mounted. */
  readonly pool: string;
}

/** A project as its clients know it. */
export interface Project {
  readonly id: string;
  readonly branch_id: string;
  readonly endpoint_id: string;
  /** The endpoint's name, without a port. */
  readonly host: string;
  readonly connection_uri: string;
}

/** Starts a Coppice on a pool in a file, with the settings that people get but for those that were asked for. */
export async function startInstallation(
  { settings, filesystem }: Pick<MeasureOptions, 'settings' | 'filesystem'>,
  { pool_gib }: { pool_gib: number },
): Promise<Installation> {
  await requireFreeSpace(pool_gib * GIB + MARGIN_BYTES);
  const data_directory = await makeDataDirectory();
  await using undo = new AsyncDisposableStack();
  undo.defer(() => removeDataDirectory(data_directory));
  const env = { ...process.env, COPPICE_DATA_DIR: data_directory };
  undo.defer(async () => void (await run(process.execPath, [PROGRAM, 'pool', 'unmount'], { env })));
  const pool_options = ['--size', `${pool_gib}G`, '--filesystem', filesystem];
  await run(process.execPath, [PROGRAM, 'pool', 'create', ...pool_options], { env });
  const pool = join(data_directory, 'pool/mount');
  const coppice = await startCoppice({ data_directory, env: settings });
  undo.defer(() => coppice.stop());
  const stopping = undo.move();
  return {
    coppice,
    data_directory,
    pool,
    [Symbol.asyncDispose]: () => stopping.disposeAsync(),
  };
}

/** Bytes in use of a filesystem, after everything written to it has reached it. */
export async function usedBytes(path: string): Promise<number> {
  await run('sync', ['-f', path]);
  const { blocks, bfree, bsize } = await statfs(path);
  return (blocks - bfree) * bsize;
}

/** Makes a project and waits until its compute runs. `settings` are fields of the API's `project`. */
export async function createProject({ coppice }: Installation, settings: object = {}): Promise<Project> {
  const created = await coppice.must('POST', '/projects', { project: settings });
  const project = projectOf(created);
  await coppice.settled(project.id);
  return project;
}

/** Of the answer to a POST of a project. */
// biome-ignore lint/suspicious/noExplicitAny: the body of an answer, whose shape the contract tests check
export function projectOf(created: any): Project {
  const [endpoint] = created.endpoints;
  return {
    id: created.project.id,
    branch_id: created.branch.id,
    endpoint_id: endpoint.id,
    host: endpoint.host.split(':')[0],
    connection_uri: created.connection_uris[0].connection_uri,
  };
}

/** Puts the project's compute to sleep and waits until that is done and the machine is quiet. */
export async function putToSleep(installation: Installation, project: Project): Promise<void> {
  const { coppice } = installation;
  await untilQuiet(installation, project);
  await coppice.must('POST', `/projects/${project.id}/endpoints/${project.endpoint_id}/suspend`);
  await untilQuiet(installation, project);
  const { endpoint } = await coppice.must('GET', `/projects/${project.id}/endpoints/${project.endpoint_id}`);
  if (endpoint.current_state !== 'idle')
    throw new Error(`${project.endpoint_id} is ${endpoint.current_state}, not idle`);
}

/** Waits until no operation of the project is under way, and a moment longer. Throws when one has failed. */
export async function untilQuiet({ coppice }: Installation, { id }: Pick<Project, 'id'>): Promise<void> {
  await until(
    async () => {
      // The newest say it all, since operations of a project end in order of conflict; few keep the look itself cheap.
      const { operations } = await coppice.must('GET', `/projects/${id}/operations?limit=10`);
      for (const { action, status, error } of operations) {
        if (status === 'failed') throw new Error(`${action} of ${id} failed: ${error}`);
      }
      return operations.every(({ status }: { status: string }) =>
        ['finished', 'skipped', 'cancelled'].includes(status),
      );
    },
    { what: `the operations of ${id} to end`, timeout_ms: PATIENCE_MS, interval_ms: 10 },
  );
  await delay(QUIET_MS);
}
