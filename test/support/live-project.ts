import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestCoppice } from './coppice.ts';
import { query } from './customer.ts';
import { until } from './until.ts';

/** A project of a running Coppice. */
export interface LiveProject {
  readonly id: string;
  readonly branch_id: string;
  readonly endpoint_id: string;
  readonly role: string;
  readonly database: string;
  readonly uri: string;
  /** Path of the project, the branch and the endpoint in the API. */
  readonly path: string;
  readonly branch_path: string;
  readonly endpoint_path: string;
  /** The API's state of the endpoint: init, active or idle. */
  state(): Promise<string>;
  untilState(state: 'active' | 'idle'): Promise<void>;
  /** Puts the compute to sleep and waits until it does. */
  suspend(): Promise<void>;
  // biome-ignore lint/suspicious/noExplicitAny: shapes are the contract test's business
  operations(): Promise<any[]>;
  operation(id: string): Promise<{ status: string; error?: string; failures_count: number; retry_at?: string }>;
}

/** Makes a project and waits until it runs. */
export async function createLiveProject(coppice: TestCoppice, project: object = {}): Promise<LiveProject> {
  const created = await coppice.must('POST', '/projects', { project });
  const live = liveProject(coppice, created);
  await coppice.settled(live.id);
  return live;
}

/** The project that a creation answered with. */
// biome-ignore lint/suspicious/noExplicitAny: shapes are the contract test's business
export function liveProject(coppice: TestCoppice, created: any): LiveProject {
  const path = `/projects/${created.project?.id ?? created.branch.project_id}`;
  const id = path.slice('/projects/'.length);
  const endpoint_path = `${path}/endpoints/${created.endpoints[0].id}`;
  const state = async () => (await coppice.must('GET', endpoint_path)).endpoint.current_state;
  return {
    id,
    branch_id: created.branch.id,
    endpoint_id: created.endpoints[0].id,
    role: created.roles[0].name,
    database: created.databases[0].name,
    uri: created.connection_uris[0].connection_uri,
    path,
    branch_path: `${path}/branches/${created.branch.id}`,
    endpoint_path,
    state,
    untilState: (wanted) => until(async () => (await state()) === wanted, { what: `the compute to be ${wanted}` }),
    suspend: async () => {
      await coppice.must('POST', `${endpoint_path}/suspend`);
      await coppice.settled(id);
      assert.equal(await state(), 'idle');
    },
    operations: async () => (await coppice.must('GET', `${path}/operations`)).operations,
    operation: async (operation) => (await coppice.must('GET', `${path}/operations/${operation}`)).operation,
  };
}

/** The data directory of the server that a connection string leads to. */
export async function dataDirectoryOf(uri: string): Promise<string> {
  const [{ directory }] = await query(uri, "select current_setting('data_directory') as directory");
  return directory;
}

/** Where the server that answers at a connection string listens. */
export async function socketDirectoryOf(uri: string): Promise<string> {
  const [{ directory }] = await query(uri, "select current_setting('unix_socket_directories') as directory");
  return directory;
}

/** The pid of the first process of the server of a data directory. */
export async function postmasterPid(directory: string): Promise<number> {
  return Number((await readFile(join(directory, 'postmaster.pid'), 'utf8')).split('\n')[0]);
}
