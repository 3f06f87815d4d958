import { sql } from 'kysely';
import { moveBackupSchedule } from './backup-schedules.ts';
import { type BranchView, markBranchDefault, updateBranch } from './branches.ts';
import { cancelUnfinished, createCall, type NewOperation } from './calls.ts';
import type { StoreTransaction } from './connection.ts';
import { endpointOperation, mayRun, willRun } from './endpoint-operations.ts';
import { type EndpointView, findEndpointsOfBranch, markEndpointsDeleted, updateEndpoint } from './endpoints.ts';
import { moveJwks } from './project-jwks.ts';
import type { OperationRow } from './schema.ts';

/** A branch that was made from a snapshot, and the one whose place it takes. */
export interface FinalizedRestore {
  readonly restored: BranchView;
  readonly target: BranchView;
  /** What the target is called from now on; free. */
  readonly replaced_name: string;
}

/**
 * Puts a restored branch in the place of its target: it gets the target's name, settings, schedule, issuers of tokens and endpoints with their
 * hosts. The endpoint that it had for looking at it goes, where the target's takes its place. Belongs behind the
 * project's lock.
 */
export async function finalizeRestore(
  trx: StoreTransaction,
  { restored, target, replaced_name }: FinalizedRestore,
): Promise<OperationRow[]> {
  const moved = (await findEndpointsOfBranch(trx, target.id)) ?? [];
  const takesOver = moved.some(({ type }) => type === 'read_write');
  const own = (await findEndpointsOfBranch(trx, restored.id)) ?? [];
  const stops = takesOver
    ? await dropEndpoints(
        trx,
        own.filter(({ type }) => type === 'read_write'),
      )
    : [];
  const { name, protected: protect, expires_at, ttl_interval_seconds } = target;
  await updateBranch(trx, target.id, { name: replaced_name });
  await updateBranch(trx, restored.id, { name, protected: protect, expires_at, ttl_interval_seconds });
  if (target.is_default) await markBranchDefault(trx, target.project_id, restored.id);
  await moveBackupSchedule(trx, target.id, restored.id);
  await moveJwks(trx, target.id, restored.id);
  for (const { id } of moved) await updateEndpoint(trx, id, { branch_id: restored.id });
  await markRestoreFinalized(trx, restored.id);
  return createCall(trx, restored.project_id, [...stops, ...moved.flatMap((endpoint) => move(endpoint, restored))]);
}

/** Deletes endpoints; returns what stops their servers. */
async function dropEndpoints(trx: StoreTransaction, endpoints: EndpointView[]): Promise<NewOperation[]> {
  for (const { id } of endpoints) await cancelUnfinished(trx, { endpoint_id: id });
  await markEndpointsDeleted(
    trx,
    endpoints.map(({ id }) => id),
  );
  return endpoints.filter(mayRun).map((endpoint) => endpointOperation('suspend_compute', endpoint));
}

/** Brings the server of a moved endpoint over: one that runs is started on the other branch, one that sleeps stays so. */
function move(endpoint: EndpointView, { id: branch_id, timeline_id }: BranchView): NewOperation[] {
  if (endpoint.disabled) return [];
  const after = { ...endpoint, branch_id, timeline_id };
  return [
    { ...endpointOperation('apply_config', after), source_timeline_id: endpoint.timeline_id },
    willRun(endpoint)
      ? endpointOperation('start_compute', after)
      : endpointOperation('suspend_compute', after, { only_if_idle: true }),
  ];
}

async function markRestoreFinalized(trx: StoreTransaction, id: string): Promise<void> {
  await trx
    .updateTable('branches')
    .set({ restore_status: 'finalized', updated_at: sql<Date>`now()` })
    .where('id', '=', id)
    .execute();
}
