import { CoppiceError } from '../domain/errors.ts';
import { type BranchId, newBranchId, newTimelineId } from '../domain/ids.ts';
import { beginRestore } from '../store/branch-restores.ts';
import {
  type BranchView,
  findBranch,
  findBranchIdByName,
  insertBranch,
  listChildren,
  moveChildren,
} from '../store/branches.ts';
import { createCall, type NewOperation } from '../store/calls.ts';
import type { Store, StoreTransaction } from '../store/connection.ts';
import { findEndpointsOfBranch } from '../store/endpoints.ts';
import { lockLiveProject } from '../store/projects.ts';
import { listRoles } from '../store/roles.ts';
import type { OperationRow } from '../store/schema.ts';
import { insertTimeline } from '../store/timelines.ts';
import { type AccessibleProject, findBranchOf } from './access.ts';
import { readAskedPoint } from './asked-point.ts';
import { restartExpiry } from './branch-expiry.ts';
import { type Caller, callerUserId } from './caller.ts';
import type { ActionContext } from './context.ts';
import { type ConfigCopy, copyBranchConfig, readConfigCopy } from './copy-branch-config.ts';
import { endpointOperation, mayRun, willRun } from './endpoint-operations.ts';
import { refuseUnmasked } from './masked-branch.ts';
import { requireReady } from './require-ready.ts';
import { requireStorage } from './storage-reserve.ts';

/** Fields as in the API. */
export interface RestoreRequest {
  readonly source_branch_id: BranchId;
  readonly source_lsn?: string;
  readonly source_timestamp?: string;
  /** Empty: the state from before is given up. */
  readonly preserve_under_name?: string;
}

/**
 * Makes a branch what another one is, or what one was. It keeps its id, name and endpoints; whoever is connected is cut
 * off once, when what it becomes is there.
 */
export async function restoreBranch(
  context: ActionContext,
  caller: Caller,
  project: AccessibleProject,
  id: BranchId,
  request: RestoreRequest,
): Promise<{ branch: BranchView; operations: OperationRow[] }> {
  const origin = await findOrigin(context, project, id, request);
  await requireStorage(context, 'branch');
  return context.store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project.id);
    const target = await findBranchOf(trx, project, id);
    const source = await findBranchOf(trx, project, request.source_branch_id);
    await checkRestore(trx, target, source, { at_point: origin !== undefined, ...request });
    // It was restored since the point was found.
    if (origin && origin.timeline_id !== source.timeline_id) throw new CoppiceError('operations_running');
    const preserved_branch_id = await preserve(trx, context, caller, project, target, request.preserve_under_name);
    const timeline = await insertTimeline(trx, {
      id: newTimelineId(),
      project_id: project.id,
      parent_id: source.timeline_id,
      distribution_id: source.distribution_id,
    });
    await beginRestore(trx, target, {
      timeline_id: timeline.id,
      parent_id: source.id === target.id ? preserved_branch_id! : source.id,
      parent_lsn: origin?.point.lsn ?? null,
      preserved_branch_id,
      expires_at: source.id === target.parent_id ? restartExpiry(target, new Date()) : target.expires_at,
      ...(await restoredConfig(trx, context, project, target, source)),
    });
    const operations = await createCall(trx, project.id, [
      {
        action: 'create_branch',
        branch_id: id,
        timeline_id: timeline.id,
        source_timeline_id: source.timeline_id,
        arguments: origin && { point: origin.point },
      },
      ...(await moveComputes(trx, target, timeline.id)),
      ...(preserved_branch_id
        ? []
        : [{ action: 'delete_timeline', branch_id: id, timeline_id: target.timeline_id } as const]),
    ]);
    return { branch: (await findBranch(trx, id))!, operations };
  });
}

/** The point of the source's past that is meant, and the timeline that it is of; undefined: the source's head. */
async function findOrigin(context: ActionContext, project: AccessibleProject, id: BranchId, request: RestoreRequest) {
  const asked = readAskedPoint({
    lsn: { field: 'source_lsn', value: request.source_lsn },
    timestamp: { field: 'source_timestamp', value: request.source_timestamp },
  });
  if (!asked) return undefined;
  const target = await findBranchOf(context.store, project, id);
  const source = await findBranchOf(context.store, project, request.source_branch_id);
  // What would be refused anyway need not be looked for in the past.
  await checkRestore(context.store, target, source, { at_point: true, ...request });
  return { timeline_id: source.timeline_id, point: await context.history.resolve(source.timeline_id, asked) };
}

async function checkRestore(
  store: Store,
  target: BranchView,
  source: BranchView,
  { at_point, preserve_under_name }: { at_point: boolean; preserve_under_name?: string },
): Promise<void> {
  const self = source.id === target.id;
  if (self && !at_point) {
    const problem = 'must be another branch, unless source_lsn or source_timestamp says which past is meant';
    throw new CoppiceError('invalid_request', { field: 'source_branch_id', problem });
  }
  if (target.protected) throw new CoppiceError('branch_protected', { verb: 'reset' });
  if (target.in_restore) throw new CoppiceError('operations_running');
  await requireReady(store, target);
  await requireReady(store, source);
  if (!self) await refuseUnmasked(store, target.id);
  if (source.expires_at && !self) throw new CoppiceError('branch_expiring', { verb: 'restore from', id: source.id });
  if (preserve_under_name) return;
  const required = (reason: string) => new CoppiceError('preserve_name_required', { reason });
  if (self) throw required('the branch is restored to its own past');
  const children = await listChildren(store, target.id);
  if (children.length > 0) {
    throw required(`the branch has children: ${children.map((child) => `${child.id} (${child.name})`).join(', ')}`);
  }
}

/** Makes the branch that keeps the target's timeline, and is the parent of its children from now on. */
async function preserve(
  trx: StoreTransaction,
  context: ActionContext,
  caller: Caller,
  project: AccessibleProject,
  target: BranchView,
  name: string | undefined,
): Promise<BranchId | undefined> {
  if (!name) return undefined;
  if (await findBranchIdByName(trx, project.id, name)) throw new CoppiceError('branch_exists', { name });
  const { timeline_id, parent_id, parent_lsn, parent_timestamp, init_source, config_generation } = target;
  const id = newBranchId();
  await insertBranch(trx, {
    ...{ id, name, project_id: project.id, created_by: callerUserId(caller) },
    ...{ timeline_id, parent_id, parent_lsn, parent_timestamp, init_source, config_generation },
  });
  await copyBranchConfig(trx, context, project, target, id);
  await moveChildren(trx, target.id, id);
  return id;
}

/** What the target is to hold: the roles and databases of the source, with the passwords that open the target now. */
async function restoredConfig(
  trx: StoreTransaction,
  context: ActionContext,
  project: AccessibleProject,
  target: BranchView,
  source: BranchView,
): Promise<Pick<ConfigCopy, 'roles' | 'databases'>> {
  const { roles, databases } = await readConfigCopy(trx, context, project, source, target.id);
  const own = new Map((await listRoles(trx, target.id)).map((role) => [role.name, role]));
  const kept = roles.map((role) => {
    const { verifier, sealed_password } = own.get(role.name) ?? {};
    return role.deleted_at || !verifier ? role : { ...role, verifier, sealed_password };
  });
  return { roles: kept, databases };
}

/** Ends the target's servers, and starts on the new timeline those that would run. */
async function moveComputes(trx: StoreTransaction, target: BranchView, timeline_id: string): Promise<NewOperation[]> {
  const endpoints = (await findEndpointsOfBranch(trx, target.id)) ?? [];
  return endpoints.filter(mayRun).flatMap((endpoint) => [
    // The stop claims the old timeline, which others may copy.
    { ...endpointOperation('suspend_compute', endpoint), timeline_id: target.timeline_id },
    ...(willRun(endpoint) ? [{ ...endpointOperation('start_compute', endpoint), timeline_id }] : []),
  ]);
}
