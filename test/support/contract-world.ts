import assert from 'node:assert/strict';
import type { TestApi } from './api-server.ts';
import { addPerson } from './people.ts';
import { createReadyBranch, createSleepingProject, finishOperations } from './project.ts';
import type { Json } from './schema-values.ts';

/** A project of its own in which there is one of everything that a path or a body of the public API can name. */
export interface ContractWorld {
  /** What stands in paths, by the name that the public API gives it. */
  readonly path: Readonly<Record<string, string>>;
  /** What stands in queries and bodies, by field. */
  readonly known: Readonly<Record<string, Json>>;
  readonly main_id: string;
  readonly organization_key_id: string;
  /** A branch that a snapshot was restored to, and that waits to be finalized. */
  restore(): Promise<string>;
  /** An anonymized branch that waits to be masked. */
  mask(): Promise<string>;
}

const MASKED_COLUMN = { table_name: 'users', column_name: 'email', masking_function: 'anon.fake_email()' };
const JWKS_URL = 'https://issuer.example.test/jwks.json';

/** Makes a project with a child branch that has a running compute, a spare role and database, a snapshot, and so on. */
export async function createContractWorld(api: TestApi): Promise<ContractWorld> {
  const project = await createSleepingProject(api);
  const place = `/projects/${project.id}`;
  const made = async (path: string, body: Json) => {
    const answer = await api.call('POST', path, { body });
    assert.ok(answer.status < 300, `${path}: ${JSON.stringify(answer.body)}`);
    await finishOperations(api, project.id);
    return answer.body;
  };
  const child = await createReadyBranch(api, project, { name: 'child' }, [{ type: 'read_write' }]);
  const branch = `${place}/branches/${child.branch.id}`;
  await made(`${branch}/roles`, { role: { name: 'spare' } });
  await made(`${branch}/databases`, { database: { name: 'spare', owner_name: project.role } });
  const { snapshot } = await made(`${place}/branches/${project.branch_id}/snapshot`, { name: 'spare' });
  const { jwks } = await made(`${place}/jwks`, { jwks_url: JWKS_URL, provider_name: 'spare' });
  const key = await made('/api_keys', { key_name: 'spare' });
  const { org_id } = (await api.call('GET', place)).body.project;
  const organization_key = await made(`/organizations/${org_id}/api_keys`, { key_name: 'spare' });
  const permission = await made(`${place}/permissions`, { email: 'guest@example.test' });
  const person = await addPerson(api, { organization_id: org_id, role: 'member' });
  const { members } = (
    await api.call('GET', `/organizations/${org_id}/members?sort_by=joined_at&sort_order=desc&limit=10`)
  ).body;
  const { member } = members.find(({ user }: { user: { email: string } }) => user.email === person.email);
  return {
    main_id: project.branch_id,
    organization_key_id: String(organization_key.id),
    restore: async () =>
      (await made(`${place}/snapshots/${snapshot.id}/restore`, { target_branch_id: project.branch_id })).branch.id,
    mask: async () => (await made(`${place}/branch_anonymized`, {})).branch.id,
    path: {
      project_id: project.id,
      branch_id: child.branch.id,
      endpoint_id: child.endpoints[0].id,
      operation_id: child.operations[0].id,
      snapshot_id: snapshot.id,
      jwks_id: jwks.id,
      key_id: String(key.id),
      role_name: 'spare',
      database_name: 'spare',
      org_id,
      member_id: member.id,
      permission_id: permission.id,
      region_id: 'local',
      vpc_endpoint_id: 'vpce-unknown',
    },
    known: {
      ...knownValues(project.role, project.database),
      org_id,
      branch_id: child.branch.id,
      endpoint_id: child.endpoints[0].id,
      parent_id: project.branch_id,
      source_branch_id: project.branch_id,
      base_branch_id: project.branch_id,
      target_branch_id: project.branch_id,
    },
  };
}

/** Fields of which the public file says the type alone, and that mean more. */
function knownValues(role: string, database: string): Record<string, Json> {
  const now = new Date().toISOString();
  const points = ['', 'parent_', 'source_', 'base_'].map((which) => [
    [`${which}lsn`, '0/1'],
    [`${which}timestamp`, now],
  ]);
  return {
    ...Object.fromEntries(points.flat()),
    region_id: 'local',
    pg_version: 17,
    provisioner: 'k8s-neonvm',
    type: 'read_only',
    init_source: 'parent-data',
    autoscaling_limit_min_cu: 0.25,
    autoscaling_limit_max_cu: 1,
    pg_settings: { work_mem: '8MB' },
    pgbouncer_settings: {},
    quota: {},
    hipaa: false,
    block_vpc_connections: false,
    preload_libraries: { use_defaults: true },
    maintenance_window: { weekdays: [1, 7], start_time: '01:00', end_time: '02:00' },
    ips: ['192.0.2.0/24'],
    role_name: role,
    database_name: database,
    owner_name: role,
    db_name: database,
    from: now,
    to: now,
    metrics: ['compute_unit_seconds'],
    jwks_url: JWKS_URL,
    role_names: [role],
    masking_rules: [{ ...{ database_name: database, schema_name: 'public' }, ...MASKED_COLUMN }],
    annotation_value: { team: 'a' },
    annotations: { team: 'a' },
    frequency: 'daily',
    role: 'member',
    invitations: [{ email: 'somebody@example.test', role: 'member' }],
    format: 'sql',
    expires_at: new Date(Date.now() + 86_400_000).toISOString(),
  };
}
