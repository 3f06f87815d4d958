import assert from 'node:assert/strict';
import { sealRolePassword } from '../../src/actions/role-secret.ts';
import { newRolePassword } from '../../src/domain/credentials.ts';
import { newBranchId, newEndpointId, newProjectId, newTimelineId } from '../../src/domain/ids.ts';
import { createVerifier, formatVerifier } from '../../src/domain/scram-verifier.ts';
import type { EndpointDefaults } from '../../src/store/schema.ts';
import type { TestApi } from './api-server.ts';

/** A project as it is some time after it was made: its branch is ready, its compute sleeps. */
export interface TestProject {
  readonly id: string;
  readonly branch_id: string;
  readonly timeline_id: string;
  readonly endpoint_id: string;
  readonly role: string;
  readonly password: string;
  readonly database: string;
}

export interface TestProjectOptions {
  readonly store_passwords?: boolean;
  readonly default_endpoint_settings?: EndpointDefaults;
}

let projects = 0;

/** Writes a project of the first organisation to the store. */
export async function insertProject(api: TestApi, options: TestProjectOptions = {}): Promise<TestProject> {
  const { store_passwords = true, default_endpoint_settings = {} } = options;
  const { store, vault, installation } = api.context;
  const organization = await store.selectFrom('organizations').select('id').executeTakeFirstOrThrow();
  const role = 'neondb_owner';
  const database = 'neondb';
  const password = newRolePassword();
  const id = newProjectId();
  const branch_id = newBranchId();
  const timeline_id = newTimelineId();
  const endpoint_id = newEndpointId();
  projects += 1;
  await store.transaction().execute(async (trx) => {
    await trx
      .insertInto('projects')
      .values({
        id,
        organization_id: organization.id,
        name: id,
        region_id: installation.region_id,
        pg_version: 17,
        distribution_id: 'test-17',
        provisioner: 'k8s-neonvm',
        store_passwords,
        history_retention_seconds: 86_400,
        default_endpoint_settings: JSON.stringify(default_endpoint_settings),
        settings: '{}',
        uid: 100_000 + projects,
      })
      .execute();
    const timeline = { id: timeline_id, project_id: id, distribution_id: 'test-17', ready_at: new Date() };
    await trx.insertInto('timelines').values(timeline).execute();
    await trx
      .insertInto('branches')
      .values({ id: branch_id, project_id: id, timeline_id, name: 'main', is_default: true })
      .execute();
    await trx
      .insertInto('endpoints')
      .values({
        id: endpoint_id,
        project_id: id,
        branch_id,
        type: 'read_write',
        min_cu: 0.25,
        max_cu: 0.25,
        suspend_timeout_seconds: 0,
        observed_state: 'stopped',
      })
      .execute();
    const verifier = formatVerifier(await createVerifier(password));
    const sealed_password = store_passwords ? sealRolePassword(vault, { branch_id, name: role }, password) : null;
    await trx
      .insertInto('roles')
      .values({ branch_id, name: role, origin: 'api', verifier, applied_verifier: verifier, sealed_password })
      .execute();
    await trx
      .insertInto('databases')
      .values({ branch_id, name: database, owner_name: role, origin: 'api', applied_name: database })
      .execute();
  });
  return { id, branch_id, timeline_id, endpoint_id, role, password, database };
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
  for (const { id, call_id, action, endpoint_id, timeline_id } of operations) {
    const now = new Date();
    if (action === 'create_branch') {
      await store.updateTable('timelines').set({ ready_at: now }).where('id', '=', timeline_id).execute();
    }
    if (action === 'start_compute' || action === 'suspend_compute') {
      const observed_state = action === 'start_compute' ? 'running' : 'stopped';
      await store.updateTable('endpoints').set({ observed_state }).where('id', '=', endpoint_id).execute();
    }
    await store
      .updateTable('operations')
      .set({ status: 'finished', started_at: now, finished_at: now, updated_at: now })
      .where('id', '=', id)
      .execute();
    await store.updateTable('calls').set({ finished_at: now }).where('id', '=', call_id).execute();
  }
}
