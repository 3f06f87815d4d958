import { isDeepStrictEqual } from 'node:util';
import { maxConnections } from '../domain/compute-size.ts';
import type { BranchId, EndpointId } from '../domain/ids.ts';
import { pgSettingNeedsRestart } from '../domain/pg-settings.ts';
import type { NewOperation } from '../store/calls.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { type EndpointView, findEndpointsOfBranch, updateEndpoint as writeEndpoint } from '../store/endpoints.ts';
import { type AccessibleProject, findBranchOf } from './access.ts';
import { changeEndpoint } from './change-endpoint.ts';
import { type ComputeIntent, type ComputeRequest, changedComputeIntent } from './compute-intent.ts';
import type { ActionContext } from './context.ts';
import { requireNoReadWriteEndpoint } from './create-endpoint.ts';
import { applyOperations, endpointOperation, willRun } from './endpoint-operations.ts';

export interface EndpointChange extends ComputeRequest {
  /** Moves the endpoint, with its id and hosts, to another branch. */
  readonly branch_id?: BranchId;
  readonly name?: string;
  readonly pooler_enabled?: boolean;
  readonly passwordless_access?: boolean;
  readonly disabled?: boolean;
}

/** Changes an endpoint. Only what the running server must learn of starts operations. */
export function updateEndpoint(
  context: ActionContext,
  project: AccessibleProject,
  id: EndpointId,
  wanted: EndpointChange,
) {
  return changeEndpoint(context, project, id, async (before, trx) => {
    const compute = changedComputeIntent(wanted, before, context.installation);
    const after = {
      branch_id: wanted.branch_id ?? before.branch_id,
      name: wanted.name ?? before.name,
      min_cu: compute.min_cu,
      max_cu: compute.max_cu,
      suspend_timeout_seconds: compute.suspend_timeout_seconds,
      pg_settings: compute.pg_settings,
      pooler_enabled: wanted.pooler_enabled ?? before.pooler_enabled,
      passwordless_access: wanted.passwordless_access ?? before.passwordless_access,
      disabled: wanted.disabled ?? before.disabled,
    };
    const timeline_id = await targetTimeline(trx, project, before, after.branch_id);
    const unchanged = Object.entries(after).every(([name, value]) =>
      isDeepStrictEqual(before[name as keyof typeof after], value),
    );
    if (unchanged) return [];
    await writeEndpoint(trx, id, { ...after, pg_settings: JSON.stringify(after.pg_settings) });
    const changed = { ...before, ...after, timeline_id } as EndpointView;
    const restarts = outgrowsReplicas(before, changed) ? await restartReplicas(trx, before.branch_id) : [];
    return [...restarts, ...followingOperations(before, changed)];
  });
}

/** The timeline of the branch that the endpoint is to serve. Throws when it cannot serve that branch. */
async function targetTimeline(
  trx: StoreTransaction,
  project: AccessibleProject,
  endpoint: EndpointView,
  branch_id: BranchId,
): Promise<string> {
  if (branch_id === endpoint.branch_id) return endpoint.timeline_id;
  const branch = await findBranchOf(trx, project, branch_id);
  if (endpoint.type === 'read_write') await requireNoReadWriteEndpoint(trx, branch_id);
  return branch.timeline_id;
}

/** What makes the server follow a change of its endpoint. */
function followingOperations(before: EndpointView, after: EndpointView): NewOperation[] {
  if (after.disabled && !before.disabled) {
    return willRun(before) ? [endpointOperation('suspend_compute', before)] : [];
  }
  if (after.branch_id !== before.branch_id) {
    // A replica makes its copy anew when it is started for the other branch.
    if (after.type === 'read_only') return willRun(before) ? [endpointOperation('suspend_compute', after)] : [];
    if (after.disabled) return [];
    // Whatever it was, it sleeps afterwards, ready to serve the other branch.
    return [
      { ...endpointOperation('apply_config', after), source_timeline_id: before.timeline_id },
      endpointOperation('suspend_compute', after),
    ];
  }
  const change = computeChange(before, after);
  if (change === 'none') return [];
  if (change === 'reload' || !willRun(before)) return applyOperations(after);
  return [endpointOperation('suspend_compute', after), endpointOperation('start_compute', after)];
}

/** A replica must not be below its primary in what both reckon from the size, or it goes no further. */
function outgrowsReplicas(before: EndpointView, after: EndpointView): boolean {
  if (before.type !== 'read_write') return false;
  const locks = ({ pg_settings }: EndpointView) => Number(pg_settings.max_locks_per_transaction ?? 0);
  return maxConnections(after) > maxConnections(before) || after.max_cu > before.max_cu || locks(after) > locks(before);
}

async function restartReplicas(trx: StoreTransaction, branch_id: BranchId): Promise<NewOperation[]> {
  const replicas = ((await findEndpointsOfBranch(trx, branch_id)) ?? []).filter(({ type }) => type === 'read_only');
  return replicas
    .filter(willRun)
    .flatMap((replica) => [endpointOperation('suspend_compute', replica), endpointOperation('start_compute', replica)]);
}

/** What a running server needs to follow a change of size or settings. */
function computeChange(before: ComputeIntent, after: ComputeIntent): 'none' | 'reload' | 'restart' {
  if (before.min_cu !== after.min_cu || before.max_cu !== after.max_cu) return 'restart';
  const names = new Set([...Object.keys(before.pg_settings), ...Object.keys(after.pg_settings)]);
  const changed = [...names].filter((name) => before.pg_settings[name] !== after.pg_settings[name]);
  if (changed.length === 0) return 'none';
  return changed.some(pgSettingNeedsRestart) ? 'restart' : 'reload';
}
