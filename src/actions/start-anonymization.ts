import { CoppiceError } from '../domain/errors.ts';
import { type BranchId, newTimelineId } from '../domain/ids.ts';
import { askForMasking, type MaskingView, privateBranch } from '../store/branch-maskings.ts';
import { beginRestore } from '../store/branch-restores.ts';
import type { BranchView } from '../store/branches.ts';
import { createCall, type NewOperation } from '../store/calls.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { findEndpointsOfBranch } from '../store/endpoints.ts';
import { lockLiveProject } from '../store/projects.ts';
import { insertTimeline } from '../store/timelines.ts';
import { type AccessibleProject, findBranchOf } from './access.ts';
import { type Caller, callerUserId } from './caller.ts';
import type { ActionContext } from './context.ts';
import { readConfigCopy } from './copy-branch-config.ts';
import { endpointOperation, mayRun, willRun } from './endpoint-operations.ts';
import { findMaskedBranch } from './masked-branch.ts';
import { requireQuota } from './require-quota.ts';
import { requireStorage } from './storage-reserve.ts';

/**
 * Masks an anonymized branch: for the first time, once more after a failure, or anew what it holds now. Masked anew, it is
 * private from the moment its computes have stopped, and what it was goes only when it is masked.
 */
export async function startAnonymization(
  context: ActionContext,
  caller: Caller,
  project: AccessibleProject,
  id: BranchId,
): Promise<MaskingView> {
  await requireStorage(context, 'branch');
  return context.store.transaction().execute(async (trx) => {
    const settled = await lockLiveProject(trx, project.id);
    const { branch, masking } = await findMaskedBranch(trx, project, id);
    if (masking.state === 'anonymizing') throw privateBranch(masking);
    if (masking.state === 'initialization_error') throw privateBranch(masking);
    if (masking.state === 'created') throw new CoppiceError('operations_running');
    await askForMasking(trx, id, callerUserId(caller) ?? null);
    const operations = branch.ready_at
      ? await maskAnew(trx, context, project, branch)
      : await mask(trx, branch, { previous_timeline_id: branch.previous_timeline_id });
    if (operations.some(({ action }) => action === 'start_compute'))
      requireQuota(settled, branch.logical_size_bytes ?? 0);
    await createCall(trx, project.id, operations);
    return (await findMaskedBranch(trx, project, id)).masking;
  });
}

const importOperation = (branch: BranchView, timeline_id: string): NewOperation => ({
  action: 'import_data',
  branch_id: branch.id,
  timeline_id,
});

const deletion = (branch: BranchView, timeline_id: string): NewOperation => ({
  action: 'delete_timeline',
  branch_id: branch.id,
  timeline_id,
});

/** The copy stands already; nothing of the branch runs. */
async function mask(
  trx: StoreTransaction,
  branch: BranchView,
  { previous_timeline_id }: { previous_timeline_id: string | null },
): Promise<NewOperation[]> {
  const endpoints = (await findEndpointsOfBranch(trx, branch.id)) ?? [];
  return [
    importOperation(branch, branch.timeline_id),
    ...endpoints.filter(({ disabled }) => !disabled).map((endpoint) => endpointOperation('start_compute', endpoint)),
    ...(previous_timeline_id ? [deletion(branch, previous_timeline_id)] : []),
  ];
}

async function maskAnew(
  trx: StoreTransaction,
  context: ActionContext,
  project: AccessibleProject,
  branch: BranchView,
): Promise<NewOperation[]> {
  if (branch.in_restore) throw new CoppiceError('operations_running');
  const { id, timeline_id: before, parent_lsn, expires_at } = branch;
  const timeline = await insertTimeline(trx, {
    id: newTimelineId(),
    project_id: project.id,
    parent_id: before,
    distribution_id: branch.distribution_id,
  });
  await beginRestore(trx, branch, {
    timeline_id: timeline.id,
    parent_id: branch.parent_id,
    ...{ parent_lsn, expires_at, preserved_branch_id: undefined },
    // Its own, with their passwords.
    ...(await readConfigCopy(trx, context, project, { id, protected: false }, id)),
  });
  const endpoints = (await findEndpointsOfBranch(trx, id)) ?? [];
  const now = await findBranchOf(trx, project, id);
  return [
    ...endpoints
      .filter(mayRun)
      .map((endpoint) => ({ ...endpointOperation('suspend_compute', endpoint), timeline_id: before })),
    {
      action: 'create_branch',
      branch_id: id,
      timeline_id: timeline.id,
      source_timeline_id: before,
      arguments: { schema_only: true, masked: 'again' },
    },
    importOperation(now, timeline.id),
    ...endpoints
      .filter(willRun)
      .map((endpoint) => ({ ...endpointOperation('start_compute', endpoint), timeline_id: timeline.id })),
    deletion(branch, before),
  ];
}
