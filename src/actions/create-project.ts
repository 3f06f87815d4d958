import { DEFAULT_RANGE } from '../domain/compute-size.ts';
import { CoppiceError } from '../domain/errors.ts';
import { newBranchId, newProjectId, newTimelineId, type OrganizationId } from '../domain/ids.ts';
import { LIMITS } from '../domain/limits.ts';
import { type BranchView, findBranch, insertBranch } from '../store/branches.ts';
import { createCall } from '../store/calls.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { insertDatabase } from '../store/databases.ts';
import { type EndpointView, findEndpoint } from '../store/endpoints.ts';
import { insertProject } from '../store/projects.ts';
import { insertRole } from '../store/roles.ts';
import type { DatabaseRow, OperationRow, ProjectRow, RoleRow } from '../store/schema.ts';
import { insertTimeline } from '../store/timelines.ts';
import { chooseOrganization } from './access.ts';
import { type Caller, callerUserId } from './caller.ts';
import { newComputeIntent } from './compute-intent.ts';
import type { ActionContext, InstallationFacts } from './context.ts';
import { checkDatabaseName } from './create-database.ts';
import { insertNewEndpoint } from './create-endpoint.ts';
import { checkRoleName } from './create-role.ts';
import {
  changedEndpointDefaults,
  changedProjectSettings,
  checkHistoryRetention,
  type EndpointDefaultsRequest,
  type ProjectSettingsRequest,
} from './project-settings.ts';
import { newRoleSecret, type RoleSecret } from './role-secret.ts';
import { requireStorage } from './storage-reserve.ts';

/** Fields as in the API; all may be left out. */
export interface ProjectRequest {
  readonly name?: string;
  readonly org_id?: OrganizationId;
  readonly region_id?: string;
  readonly pg_version?: number;
  readonly provisioner?: string;
  readonly store_passwords?: boolean;
  readonly history_retention_seconds?: number;
  readonly autoscaling_limit_min_cu?: number;
  readonly autoscaling_limit_max_cu?: number;
  readonly default_endpoint_settings?: EndpointDefaultsRequest;
  readonly settings?: ProjectSettingsRequest;
  readonly branch?: {
    readonly name?: string;
    readonly role_name?: string;
    readonly database_name?: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

export interface CreatedProject {
  readonly project: ProjectRow;
  readonly branch: BranchView;
  readonly endpoint: EndpointView;
  readonly role: RoleRow;
  readonly password: string;
  readonly database: DatabaseRow;
  readonly operations: readonly OperationRow[];
}

const DEFAULT_BRANCH = 'main';
const DEFAULT_DATABASE = 'neondb';
const DEFAULT_PROVISIONER = 'k8s-neonvm';
const DEFAULT_SUSPEND_TIMEOUT = 0;
/** Where everything runs as one user a project's uid means nothing, but is still its own. */
const UNUSED_UID_BASE = 1;

/** Makes a project with a branch, a role, a database and an endpoint that starts at once. */
export async function createProject(
  context: ActionContext,
  caller: Caller,
  request: ProjectRequest,
): Promise<CreatedProject> {
  const plan = planProject(context.installation, caller, request);
  await requireStorage(context, 'project');
  const branch_id = newBranchId();
  const secret = await newRoleSecret(context.vault, { branch_id, name: plan.names.role }, plan.project);
  return context.store.transaction().execute(async (trx) => {
    const project = await insertProject(trx, plan.project, context.installation.uid_base ?? UNUSED_UID_BASE);
    return insertContents(trx, project, plan, branch_id, secret);
  });
}

type ProjectPlan = ReturnType<typeof planProject>;

/** Everything that can be decided, and refused, without the store. */
function planProject(installation: InstallationFacts, caller: Caller, request: ProjectRequest) {
  const pg_version = request.pg_version ?? installation.default_pg_version;
  const id = newProjectId();
  const settings = changedProjectSettings(request.settings ?? {}, {});
  const history_retention_seconds = request.history_retention_seconds ?? LIMITS.history_retention_seconds_default;
  checkHistoryRetention(history_retention_seconds);
  const defaults = planDefaults(installation, request);
  const created_by = callerUserId(caller);
  return {
    project: {
      id,
      organization_id: chooseOrganization(caller, request.org_id),
      name: request.name ?? id,
      region_id: checkRegion(installation, request.region_id),
      pg_version,
      distribution_id: chooseDistribution(installation, pg_version),
      provisioner: request.provisioner ?? DEFAULT_PROVISIONER,
      store_passwords: request.store_passwords ?? true,
      history_retention_seconds,
      default_endpoint_settings: JSON.stringify(defaults),
      settings: JSON.stringify(settings),
      created_by,
    },
    compute: newComputeIntent({}, defaults, installation),
    names: planNames(request.branch ?? {}),
    annotations: request.branch?.annotations ?? {},
    created_by,
  };
}

function planDefaults(installation: InstallationFacts, request: ProjectRequest) {
  const { autoscaling_limit_min_cu, autoscaling_limit_max_cu, default_endpoint_settings } = request;
  return changedEndpointDefaults(
    // The two fields of the project are the older spelling of the same thing.
    { autoscaling_limit_min_cu, autoscaling_limit_max_cu, ...default_endpoint_settings },
    {
      pg_settings: {},
      autoscaling_limit_min_cu: DEFAULT_RANGE.min_cu,
      autoscaling_limit_max_cu: DEFAULT_RANGE.max_cu,
      suspend_timeout_seconds: DEFAULT_SUSPEND_TIMEOUT,
    },
    installation,
  );
}

function planNames({ name, role_name, database_name }: NonNullable<ProjectRequest['branch']>) {
  const database = database_name ?? DEFAULT_DATABASE;
  const role = role_name ?? `${database}_owner`;
  checkDatabaseName(database, 'project.branch.database_name');
  checkRoleName(role, 'project.branch.role_name');
  return { branch: name ?? DEFAULT_BRANCH, role, database };
}

function checkRegion({ region_id }: InstallationFacts, requested: string = region_id): string {
  if (requested === region_id) return region_id;
  throw new CoppiceError('region_unknown', { region_id: requested, available: region_id });
}

function chooseDistribution({ distributions }: InstallationFacts, version: number): string {
  const distribution = distributions.get(version);
  if (distribution) return distribution;
  const available = [...distributions.keys()].sort((a, b) => a - b).join(', ');
  throw new CoppiceError('pg_version_unknown', { version, available });
}

async function insertContents(
  trx: StoreTransaction,
  project: ProjectRow,
  { names, annotations, compute, created_by }: ProjectPlan,
  branch_id: string,
  { password, ...secret }: RoleSecret,
): Promise<CreatedProject> {
  const project_id = project.id;
  const timeline_id = newTimelineId();
  await insertTimeline(trx, { id: timeline_id, project_id, parent_id: null, distribution_id: project.distribution_id });
  await insertBranch(trx, {
    id: branch_id,
    project_id,
    timeline_id,
    name: names.branch,
    is_default: true,
    annotations: JSON.stringify(annotations),
    created_by,
  });
  const role = await insertRole(trx, { branch_id, name: names.role, can_login: true, ...secret });
  const database = await insertDatabase(trx, { branch_id, name: names.database, owner_name: names.role });
  const endpoint_id = await insertNewEndpoint(trx, { id: branch_id, project_id }, { type: 'read_write' }, compute);
  const operations = await createCall(trx, project_id, [
    { action: 'create_timeline', branch_id, timeline_id },
    { action: 'start_compute', endpoint_id, branch_id, timeline_id },
  ]);
  return {
    project,
    branch: (await findBranch(trx, branch_id))!,
    endpoint: (await findEndpoint(trx, endpoint_id))!,
    role: role!,
    password,
    database: database!,
    operations,
  };
}
