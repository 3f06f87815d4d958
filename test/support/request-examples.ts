import type { Route } from '../../src/api/route.ts';

/** What requests are made of: a project with what is in it. */
export interface ExampleIds {
  readonly project_id: string;
  readonly branch_id: string;
  readonly endpoint_id: string;
  readonly org_id: string;
}

const UNKNOWN_UUID = '00000000-0000-4000-8000-000000000000';

/** A value for every parameter that stands in a path. */
export function examplePath(route: Route, ids: ExampleIds): string {
  const values: Record<string, string> = {
    ...ids,
    operation_id: UNKNOWN_UUID,
    key_id: '999',
    webhook_id: UNKNOWN_UUID,
    delivery_id: UNKNOWN_UUID,
    snapshot_id: 'snap-unknown-snapshot-12345678',
    role_name: 'neondb_owner',
    jwks_id: UNKNOWN_UUID,
    member_id: UNKNOWN_UUID,
    invitation_id: UNKNOWN_UUID,
    permission_id: UNKNOWN_UUID,
    request_id: UNKNOWN_UUID,
    database_name: 'neondb',
    region_id: 'local',
    vpc_endpoint_id: 'vpce-unknown',
    oauth_provider_id: 'google',
    auth_user_id: UNKNOWN_UUID,
  };
  return route.path.replace(/:(\w+)/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`there is no example of :${name} in ${route.path}`);
    return value;
  });
}

/** The query that a route cannot do without. */
export function exampleQuery(
  { path }: Route,
  { project_id, org_id }: Pick<ExampleIds, 'project_id' | 'org_id'>,
): string {
  if (path.startsWith('/consumption_history/')) {
    const hour = new Date(Date.now() - 3_600_000).toISOString();
    const metrics = path.includes('/v2/') ? '&metrics=compute_unit_seconds' : '';
    return `?org_id=${org_id}&project_ids=${project_id}&from=${hour}&to=${hour}&granularity=hourly${metrics}`;
  }
  if (path.endsWith('/connection_uri')) return '?database_name=neondb&role_name=neondb_owner';
  return /\/(compare_)?schema$/.test(path) ? '?db_name=neondb' : '';
}

const exampleColumn = { database_name: 'neondb', schema_name: 'public', table_name: 'users' };
const exampleRules = [
  { ...exampleColumn, column_name: 'email', masking_function: 'anon.fake_email()' },
  { ...exampleColumn, column_name: 'name', masking_value: 'somebody' },
];

const anonymizedBodies = (branch_id: string): Record<string, Record<string, unknown>> => ({
  'POST /projects/:project_id/branch_anonymized': {
    branch_create: {
      branch: { parent_id: branch_id, name: 'a name' },
      endpoints: [{ type: 'read_write', autoscaling_limit_max_cu: 1 }],
    },
    masking_rules: exampleRules,
    start_anonymization: true,
    annotation_value: { team: 'a' },
  },
  'PATCH /projects/:project_id/branches/:branch_id/masking_rules': { masking_rules: exampleRules },
});

const exampleIssuer = (branch_id: string) => ({
  jwks_url: 'https://issuer.example.test/jwks.json',
  provider_name: 'a name',
  branch_id,
  jwt_audience: 'a name',
  role_names: ['a_role'],
  skip_role_creation: true,
});

/** Of organisations, and of what becomes of their projects. */
const organizationBodies = ({ project_id, org_id }: ExampleIds): Record<string, Record<string, unknown>> => ({
  'POST /organizations/:org_id/api_keys': { key_name: 'a name', read_only: false, project_id },
  'PATCH /organizations/:org_id/members/:member_id': { role: 'admin' },
  'POST /organizations/:org_id/invitations': { invitations: [{ email: 'a@example.test', role: 'member' }] },
  'POST /projects/:project_id/transfer_requests': { ttl_seconds: 3600 },
  'PUT /projects/:project_id/transfer_requests/:request_id': { org_id },
  'POST /organizations/:org_id/projects/transfer': { destination_org_id: org_id, project_ids: [project_id] },
  'POST /users/me/projects/transfer': { destination_org_id: org_id, project_ids: [project_id] },
  'POST /projects/:project_id/permissions': { email: 'a@example.test' },
});

/** A valid body of every route that takes one, with every kind of field that it has. */
export function exampleBody(route: Route, ids: ExampleIds): Record<string, unknown> | undefined {
  if (!route.schema.body) return undefined;
  const { branch_id } = ids;
  const compute = {
    autoscaling_limit_min_cu: 0.25,
    autoscaling_limit_max_cu: 1,
    suspend_timeout_seconds: 300,
    settings: { pg_settings: { work_mem: '8MB' } },
  };
  const defaults = { autoscaling_limit_min_cu: 0.25, autoscaling_limit_max_cu: 1, suspend_timeout_seconds: 300 };
  const project = { name: 'a name', history_retention_seconds: 3600, default_endpoint_settings: defaults };
  const bodies: Record<string, Record<string, unknown>> = {
    'POST /api_keys': { key_name: 'a name', read_only: false },
    ...organizationBodies(ids),
    'POST /projects': {
      project: {
        ...project,
        pg_version: 17,
        store_passwords: true,
        region_id: 'local',
        branch: { name: 'a name', role_name: 'a_role', database_name: 'a_database', annotations: { team: 'a' } },
        settings: { enable_logical_replication: false },
      },
    },
    'PATCH /projects/:project_id': { project },
    'POST /projects/:project_id/jwks': exampleIssuer(branch_id),
    'POST /projects/:project_id/branches': {
      branch: { parent_id: branch_id, name: 'a name', protected: false },
      endpoints: [{ ...compute, type: 'read_write' }],
      annotation_value: { team: 'a' },
    },
    ...anonymizedBodies(branch_id),
    'PATCH /projects/:project_id/branches/:branch_id': { branch: { name: 'another name', protected: false } },
    'POST /projects/:project_id/branches/:branch_id/restore': {
      source_branch_id: 'br-an-unknown-one',
      source_lsn: '0/1',
      preserve_under_name: 'a name',
    },
    'POST /organizations/:org_id/webhooks': { url: 'https://a.example.test/', event_types: ['branch.*'] },
    'POST /projects/:project_id/webhooks': { url: 'https://a.example.test/', event_types: ['branch.*'] },
    'POST /projects/:project_id/branches/:branch_id/renew_lease': { lease_ttl_seconds: 600 },
    'POST /projects/:project_id/branches/:branch_id/snapshot': { name: 'a name' },
    'PATCH /projects/:project_id/snapshots/:snapshot_id': { snapshot: { name: 'a name' } },
    'POST /projects/:project_id/snapshots/:snapshot_id/restore': {
      name: 'a name',
      target_branch_id: branch_id,
      finalize_restore: false,
    },
    'POST /projects/:project_id/branches/:branch_id/finalize_restore': { name: 'a name' },
    'PUT /projects/:project_id/branches/:branch_id/backup_schedule': {
      schedule: [{ frequency: 'yearly', hour: 3, day: 1, month: 2, retention_seconds: 3600 }],
    },
    'POST /projects/:project_id/endpoints': {
      endpoint: { ...compute, branch_id, type: 'read_write', name: 'a name', disabled: false, pooler_enabled: false },
    },
    'PATCH /projects/:project_id/endpoints/:endpoint_id': {
      endpoint: { ...compute, name: 'a name', disabled: false, pooler_mode: 'transaction' },
    },
    'POST /projects/:project_id/branches/:branch_id/roles': { role: { name: 'a_role', no_login: false } },
    'POST /projects/:project_id/branches/:branch_id/databases': {
      database: { name: 'a_database', owner_name: 'neondb_owner' },
    },
    'PATCH /projects/:project_id/branches/:branch_id/databases/:database_name': {
      database: { name: 'another', owner_name: 'neondb_owner' },
    },
  };
  const body = bodies[`${route.method} ${route.path}`];
  if (!body) throw new Error(`there is no example body of ${route.method} ${route.path}`);
  return body;
}
