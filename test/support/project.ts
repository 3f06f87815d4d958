import assert from 'node:assert/strict';
import type { ObservedCompute } from '../../src/domain/states.ts';
import { observeMasked, observeMaskingCopied } from '../../src/store/branch-maskings.ts';
import { finishRestore } from '../../src/store/branch-restores.ts';
import type { EndpointDefaults, OperationRow } from '../../src/store/schema.ts';
import type { TestApi } from './api-server.ts';

/** A project as it is some time after it was made: its branch is ready, its compute sleeps. */
export interface TestProject {
  readonly id: string;
  readonly branch_id: string;
  readonly endpoint_id: string;
  readonly role: string;
  readonly password: string;
  readonly database: string;
}

export interface TestProjectOptions {
  readonly store_passwords?: boolean;
  readonly default_endpoint_settings?: EndpointDefaults;
}

/** Makes a project and has done with its operations. */
export async function createSleepingProject(api: TestApi, options: TestProjectOptions = {}): Promise<TestProject> {
  const { status, body } = await api.call('POST', '/projects', { body: { project: options } });
  assert.equal(status, 201, body.message);
  await finishOperations(api, body.project.id);
  const [endpoint] = body.endpoints;
  await observeEndpoint(api, endpoint.id, 'stopped');
  return {
    id: body.project.id,
    branch_id: body.branch.id,
    endpoint_id: endpoint.id,
    role: body.roles[0].name,
    password: body.roles[0].password,
    database: body.databases[0].name,
  };
}

/** Says that an endpoint's compute was seen to run, or not to. */
export async function observeEndpoint(
  api: Pick<TestApi, 'context'>,
  id: string,
  observed_state: ObservedCompute,
): Promise<void> {
  await api.context.store
    .updateTable('endpoints')
    .from('branches')
    .set((eb) => ({ observed_state, serves_timeline_id: eb.ref('branches.timeline_id') }))
    .whereRef('branches.id', '=', 'endpoints.branch_id')
    .where('endpoints.id', '=', id)
    .execute();
}

/** Makes a branch with nothing but a name, and has it ready. */
export async function createReadyBranch(
  api: TestApi,
  project: TestProject,
  branch: Record<string, unknown> = {},
  endpoints: unknown[] = [],
) {
  const { status, body } = await api.call('POST', `/projects/${project.id}/branches`, { body: { branch, endpoints } });
  assert.equal(status, 201, body.message);
  await finishOperations(api, project.id);
  return body;
}

/** Ends every unfinished operation of a project, in order, with the observations that an engine would make. */
export async function finishOperations(api: TestApi, project_id: string): Promise<void> {
  const { store } = api.context;
  const operations = await store
    .selectFrom('operations')
    .selectAll()
    .where('project_id', '=', project_id)
    .where('status', 'in', ['scheduling', 'running', 'cancelling'])
    .orderBy('created_at')
    .execute();
  for (const operation of operations) {
    const now = new Date();
    await carryOut(api, operation);
    await store
      .updateTable('operations')
      .set({ status: 'finished', started_at: now, finished_at: now, updated_at: now })
      .where('id', '=', operation.id)
      .execute();
    await store.updateTable('calls').set({ finished_at: now }).where('id', '=', operation.call_id).execute();
  }
}

/** Makes the observations that an engine would make when it has carried out an operation. */
export async function carryOut(
  api: Pick<TestApi, 'context'>,
  { action, project_id, endpoint_id, timeline_id, branch_id, arguments: given }: OperationRow,
): Promise<void> {
  const { store } = api.context;
  const now = new Date();
  if (given.masked) await observeMaskingCopied(store, branch_id!);
  else if (action === 'create_timeline' || action === 'create_branch' || action === 'import_data') {
    await store.updateTable('timelines').set({ ready_at: now }).where('id', '=', timeline_id).execute();
    await store.transaction().execute((trx) => finishRestore(trx, { project_id, branch_id, timeline_id }));
    if (action === 'import_data') await store.transaction().execute((trx) => observeMasked(trx, branch_id!, 1));
  }
  if (action === 'timeline_archive' || action === 'timeline_unarchive') {
    const archived_at = action === 'timeline_archive' ? now : null;
    await store.updateTable('timelines').set({ archived_at }).where('id', '=', timeline_id).execute();
  }
  if (action === 'tenant_reattach') {
    const here = { archived_at: null, detached_at: null };
    await store
      .updateTable('timelines')
      .set(here)
      .where('project_id', '=', project_id)
      .where('detached_at', 'is not', null)
      .execute();
  }
  if (action === 'start_compute' || action === 'suspend_compute') {
    await observeEndpoint(api, endpoint_id!, action === 'start_compute' ? 'running' : 'stopped');
  }
}
