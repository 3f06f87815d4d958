import { CoppiceError } from '../domain/errors.ts';
import type { HistoryPoint } from '../domain/history.ts';
import { type BranchId, newBranchId, newTimelineId } from '../domain/ids.ts';
import type { MaskingRule } from '../domain/masking/masking-rule.ts';
import { insertMasking } from '../store/branch-maskings.ts';
import { type BranchView, findBranch, findBranchIdByName, findDefaultBranch, insertBranch } from '../store/branches.ts';
import { createCall, type NewOperation } from '../store/calls.ts';
import type { Store, StoreTransaction } from '../store/connection.ts';
import { type EndpointView, findEndpointsOfBranch } from '../store/endpoints.ts';
import { lockLiveProject } from '../store/projects.ts';
import type { DatabaseRow, OperationRow, RoleRow } from '../store/schema.ts';
import { insertTimeline } from '../store/timelines.ts';
import { type AccessibleProject, findBranchOf } from './access.ts';
import { readAskedPoint } from './asked-point.ts';
import { readExpiry } from './branch-expiry.ts';
import { newLease } from './branch-lease.ts';
import { type Caller, callerUserId } from './caller.ts';
import { type ComputeIntent, type ComputeRequest, newComputeIntent } from './compute-intent.ts';
import type { ActionContext } from './context.ts';
import { copyBranchConfig } from './copy-branch-config.ts';
import { insertNewEndpoint } from './create-endpoint.ts';
import { endpointOperation } from './endpoint-operations.ts';
import { findCreatedBranch } from './find-created-branch.ts';
import { requireQuota } from './require-quota.ts';
import { requireReady } from './require-ready.ts';
import { requireStorage } from './storage-reserve.ts';

/** Fields as in the API; an empty parent is the default branch. */
export interface BranchRequest {
  /** A branch of that name is given back as it is, and none is made. */
  readonly if_absent?: boolean;
  readonly branch?: {
    readonly parent_id?: string;
    readonly name?: string;
    readonly parent_lsn?: string;
    readonly parent_timestamp?: string;
    readonly protected?: boolean;
    readonly archived?: boolean;
    readonly init_source?: string;
    readonly expires_at?: string;
    /** It expires after so long, unless its lease is renewed. */
    readonly lease_ttl_seconds?: number;
  };
  readonly endpoints?: readonly BranchEndpointRequest[];
  readonly annotation_value?: Readonly<Record<string, string>>;
}

interface BranchEndpointRequest extends ComputeRequest {
  readonly type: EndpointView['type'];
}

export interface CreatedBranch {
  /** False: it was there. */
  readonly created: boolean;
  readonly branch: BranchView;
  readonly endpoints: readonly EndpointView[];
  readonly operations: readonly OperationRow[];
  /** Those of the parent; without passwords. */
  readonly roles: readonly RoleRow[];
  readonly databases: readonly DatabaseRow[];
  /** Where to connect to, when there is one endpoint, one role whose password is known, and one database. */
  readonly connection?: { endpoint_id: string; role: string; password: string; database: string };
}

/** Has the branch filled with masked data, and be nobody's to use before. */
export interface MaskingRequest {
  readonly rules: readonly MaskingRule[];
  /** False: somebody says later when. */
  readonly start: boolean;
}

/**
 * Makes a branch of another one, with all of its data, with its schema only or with its data masked, and with the endpoints
 * asked for. With `if_absent` one that is there already is given back.
 */
export async function createBranch(
  context: ActionContext,
  caller: Caller,
  project: AccessibleProject,
  request: BranchRequest,
  masking?: MaskingRequest,
): Promise<CreatedBranch> {
  refuseWhatIsNotAvailable(context, request);
  // First, since the point that it was made at may be out of the history by now.
  const existing = request.if_absent && (await findExisting(context, project, request));
  if (existing) return existing;
  const origin = await findOrigin(context, project, request.branch);
  const intents = endpointIntents(context, project, request.endpoints ?? []);
  await requireStorage(context, 'branch');
  return context.store.transaction().execute(async (trx) => {
    const settled = await lockLiveProject(trx, project.id);
    const made_meanwhile = request.if_absent && (await existingBranch(trx, context, project, request));
    if (made_meanwhile) return made_meanwhile;
    const parent = await findParent(trx, project, request.branch?.parent_id);
    if (intents.length > 0) requireQuota(settled, isSchemaOnly(request) ? 0 : (parent.logical_size_bytes ?? 0));
    // It was restored since the point was found.
    if (origin && origin.timeline_id !== parent.timeline_id) throw new CoppiceError('operations_running');
    const branch = await insertChild(trx, caller, parent, request, origin?.point);
    const config = await copyBranchConfig(trx, context, project, parent, branch.id);
    for (const { type, intent } of intents) await insertNewEndpoint(trx, branch, { type }, intent);
    if (masking) await insertMaskingOf(trx, caller, branch, masking);
    const made = (await findEndpointsOfBranch(trx, branch.id)) ?? [];
    const starts =
      masking && !masking.start ? [] : made.map((endpoint) => endpointOperation('start_compute', endpoint));
    const operations = await createCall(trx, project.id, [
      {
        action: 'create_branch',
        branch_id: branch.id,
        timeline_id: branch.timeline_id,
        source_timeline_id: parent.timeline_id,
        arguments: {
          ...(origin && { point: origin.point }),
          ...((isSchemaOnly(request) || masking) && { schema_only: true }),
          ...(masking && { masked: 'new' }),
        },
      },
      ...(isSchemaOnly(request) ? [fillOperation('apply_schema_from_branch', branch, origin?.point)] : []),
      ...(masking?.start ? [fillOperation('import_data', branch, origin?.point)] : []),
      ...starts,
      ...(request.branch?.archived ? [archiveOperation(branch)] : []),
    ]);
    const endpoints = (await findEndpointsOfBranch(trx, branch.id)) ?? [];
    const { roles, databases, passwords } = config;
    const to = connection(endpoints, config, passwords);
    return { created: true, branch, endpoints, operations, roles, databases, connection: to };
  });
}

function findExisting(
  context: ActionContext,
  project: AccessibleProject,
  request: BranchRequest,
): Promise<CreatedBranch | undefined> {
  if (request.branch?.name === undefined) {
    throw new CoppiceError('invalid_request', { field: 'branch.name', problem: 'is needed with if_absent' });
  }
  return context.store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project.id);
    return existingBranch(trx, context, project, request);
  });
}

async function existingBranch(...of: Parameters<typeof findCreatedBranch>): Promise<CreatedBranch | undefined> {
  const found = await findCreatedBranch(...of);
  if (!found) return undefined;
  const { passwords, ...existing } = found;
  return { created: false, ...existing, connection: connection(found.endpoints, found, passwords) };
}

/** Refused rather than ignored: the branch would not be what was asked for. */
function refuseWhatIsNotAvailable({ installation }: ActionContext, { branch, endpoints }: BranchRequest): void {
  const refuse = (feature: string) => new CoppiceError('not_available', { feature });
  if (branch?.archived) {
    if (!installation.object_storage) throw refuse('an archived branch (archived) without object storage');
    const wrong = (field: string, problem: string) => new CoppiceError('invalid_request', { field, problem });
    if (endpoints?.length) throw wrong('endpoints', 'an archived branch is made without endpoints');
    if (branch.protected) throw wrong('branch.archived', 'a protected branch is not archived');
  }
  if (branch?.init_source && !INIT_SOURCES.includes(branch.init_source)) {
    throw refuse(`a branch that begins otherwise (init_source ${branch.init_source})`);
  }
  if (isSchemaOnly({ branch }) && endpoints?.length !== 1) {
    const problem = 'a schema-only branch is made with one read_write endpoint';
    throw new CoppiceError('invalid_request', { field: 'endpoints', problem });
  }
}

const archiveOperation = ({ id, timeline_id }: BranchView): NewOperation => ({
  action: 'timeline_archive',
  branch_id: id,
  timeline_id,
});

const SCHEMA_ONLY = 'schema-only';
const INIT_SOURCES = ['parent-data', SCHEMA_ONLY];
const isSchemaOnly = ({ branch }: Pick<BranchRequest, 'branch'>): boolean => branch?.init_source === SCHEMA_ONLY;

/** Fills a branch that takes over no data, or masked data, before anybody can reach it. */
const fillOperation = (
  action: 'apply_schema_from_branch' | 'import_data',
  branch: BranchView,
  point: HistoryPoint | undefined,
): NewOperation => ({
  action,
  branch_id: branch.id,
  timeline_id: branch.timeline_id,
  arguments: { at_point: point !== undefined },
});

/** The point that the branch is to begin at, and the timeline that it is of; undefined: the parent's head. */
async function findOrigin(context: ActionContext, project: AccessibleProject, wanted: BranchRequest['branch'] = {}) {
  const asked = readAskedPoint({
    lsn: { field: 'branch.parent_lsn', value: wanted.parent_lsn },
    timestamp: { field: 'branch.parent_timestamp', value: wanted.parent_timestamp },
  });
  if (!asked) return undefined;
  const { timeline_id } = await findParent(context.store, project, wanted.parent_id);
  return { timeline_id, point: await context.history.resolve(timeline_id, asked) };
}

function endpointIntents(
  context: ActionContext,
  project: AccessibleProject,
  requests: readonly BranchEndpointRequest[],
): { type: EndpointView['type']; intent: ComputeIntent }[] {
  if (requests.filter(({ type }) => type === 'read_write').length > 1) {
    throw new CoppiceError('invalid_request', {
      field: 'endpoints',
      problem: 'a branch has one read_write endpoint at most',
    });
  }
  return requests.map((request) => ({
    type: request.type,
    intent: newComputeIntent(request, project.default_endpoint_settings, context.installation),
  }));
}

async function findParent(trx: Store, project: AccessibleProject, id: string | undefined) {
  const parent = id ? await findBranchOf(trx, project, id) : await findDefaultBranch(trx, project.id);
  if (!parent) throw new CoppiceError('not_found', { noun: 'branch' });
  await requireReady(trx, parent);
  if (parent.expires_at) throw new CoppiceError('branch_expiring', { verb: 'make a child of', id: parent.id });
  return parent;
}

async function insertChild(
  trx: StoreTransaction,
  caller: Caller,
  parent: BranchView,
  { branch: wanted = {}, annotation_value = {} }: BranchRequest,
  point: HistoryPoint | undefined,
): Promise<BranchView> {
  const id: BranchId = newBranchId();
  const name = wanted.name ?? id;
  const { project_id } = parent;
  if (await findBranchIdByName(trx, project_id, name)) throw new CoppiceError('branch_exists', { name });
  const expiry = expiryOf(wanted, new Date());
  if (expiry && wanted.protected) {
    throw new CoppiceError('branch_cannot_expire', { reason: 'it is to be protected', id });
  }
  const timeline = await insertTimeline(trx, {
    id: newTimelineId(),
    project_id,
    parent_id: parent.timeline_id,
    distribution_id: parent.distribution_id,
  });
  await insertBranch(trx, {
    id,
    project_id,
    timeline_id: timeline.id,
    // Nothing of the parent's is in it but the schema, so that it is a root of its own.
    ...(isSchemaOnly({ branch: wanted })
      ? { init_source: SCHEMA_ONLY }
      : { parent_id: parent.id, parent_lsn: point?.lsn }),
    name,
    protected: wanted.protected,
    annotations: JSON.stringify(annotation_value),
    created_by: callerUserId(caller),
    ...expiry,
  });
  return (await findBranch(trx, id))!;
}

function insertMaskingOf(
  trx: StoreTransaction,
  caller: Caller,
  { id, project_id }: BranchView,
  { rules, start }: MaskingRequest,
): Promise<void> {
  const asked = start ? { asked_at: new Date(), asked_by: callerUserId(caller) ?? null } : {};
  return insertMasking(trx, { branch_id: id, project_id, rules, ...asked });
}

function expiryOf({ expires_at, lease_ttl_seconds }: NonNullable<BranchRequest['branch']>, now: Date) {
  if (lease_ttl_seconds === undefined) return expires_at === undefined ? undefined : readExpiry(expires_at, now);
  if (expires_at === undefined) return newLease(lease_ttl_seconds, now);
  const problem = 'cannot be given together with expires_at';
  throw new CoppiceError('invalid_request', { field: 'branch.lease_ttl_seconds', problem });
}

function connection(
  endpoints: readonly EndpointView[],
  { roles, databases }: { roles: readonly RoleRow[]; databases: readonly DatabaseRow[] },
  passwords: ReadonlyMap<string, string>,
): CreatedBranch['connection'] {
  const endpoint = endpoints.find(({ type }) => type === 'read_write') ?? endpoints[0];
  const [role, database] = [roles[0], databases[0]];
  if (!endpoint || !role || !database || roles.length > 1 || databases.length > 1) return undefined;
  const password = passwords.get(role.name);
  return password === undefined
    ? undefined
    : { endpoint_id: endpoint.id, role: role.name, password, database: database.name };
}
