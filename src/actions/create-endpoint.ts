import { CoppiceError } from '../domain/errors.ts';
import { type BranchId, newEndpointId } from '../domain/ids.ts';
import { createCall } from '../store/calls.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { type EndpointView, findEndpointsOfBranch, insertEndpoint } from '../store/endpoints.ts';
import { lockLiveProject } from '../store/projects.ts';
import type { OperationRow } from '../store/schema.ts';
import { type AccessibleProject, findBranchOf, findEndpointOf } from './access.ts';
import { type ComputeIntent, type ComputeRequest, newComputeIntent } from './compute-intent.ts';
import type { ActionContext } from './context.ts';
import { endpointOperation } from './endpoint-operations.ts';
import { requireQuota } from './require-quota.ts';
import { requireReady } from './require-ready.ts';
import { requireStorage } from './storage-reserve.ts';

export interface EndpointRequest extends ComputeRequest {
  readonly branch_id: BranchId;
  readonly type: 'read_write' | 'read_only';
  readonly region_id?: string;
  readonly name?: string;
  readonly pooler_enabled?: boolean;
  readonly passwordless_access?: boolean;
  readonly disabled?: boolean;
}

/** Makes an endpoint for a branch and starts it, unless it is disabled. */
export async function createEndpoint(
  context: ActionContext,
  project: AccessibleProject,
  request: EndpointRequest,
): Promise<{ endpoint: EndpointView; operations: OperationRow[] }> {
  if (request.region_id !== undefined && request.region_id !== project.region_id) {
    throw new CoppiceError('invalid_request', { field: 'region_id', problem: `must be ${project.region_id}` });
  }
  const intent = newComputeIntent(request, project.default_endpoint_settings, context.installation);
  if (request.type === 'read_only') await requireStorage(context, 'read replica');
  return context.store.transaction().execute(async (trx) => {
    const settled = await lockLiveProject(trx, project.id);
    const branch = await findBranchOf(trx, project, request.branch_id);
    await requireReady(trx, branch);
    if (!request.disabled) requireQuota(settled, branch.logical_size_bytes ?? 0);
    if (request.type === 'read_write') await requireNoReadWriteEndpoint(trx, branch.id);
    const id = await insertNewEndpoint(trx, branch, request, intent);
    const starts = request.disabled ? [] : [endpointOperation('start_compute', await findEndpointOf(trx, project, id))];
    const operations = await createCall(trx, project.id, starts);
    return { endpoint: await findEndpointOf(trx, project, id), operations };
  });
}

/** Throws when the branch has a read_write endpoint: it can have one at most. */
export async function requireNoReadWriteEndpoint(trx: StoreTransaction, branch_id: BranchId): Promise<void> {
  const other = (await findEndpointsOfBranch(trx, branch_id))?.find(({ type }) => type === 'read_write');
  if (other) throw new CoppiceError('endpoint_exists', { branch_id, endpoint_id: other.id });
}

/** Writes an endpoint's intent and returns its new id. */
export async function insertNewEndpoint(
  trx: StoreTransaction,
  branch: { readonly id: BranchId; readonly project_id: string },
  request: Omit<EndpointRequest, 'branch_id'>,
  intent: ComputeIntent,
): Promise<string> {
  const id = newEndpointId();
  await insertEndpoint(trx, {
    id,
    project_id: branch.project_id,
    branch_id: branch.id,
    name: request.name,
    type: request.type,
    min_cu: intent.min_cu,
    max_cu: intent.max_cu,
    suspend_timeout_seconds: intent.suspend_timeout_seconds,
    pg_settings: JSON.stringify(intent.pg_settings),
    pooler_enabled: request.pooler_enabled,
    passwordless_access: request.passwordless_access,
    disabled: request.disabled,
  });
  return id;
}
