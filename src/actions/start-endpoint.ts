import { CoppiceError } from '../domain/errors.ts';
import type { EndpointId, OperationId } from '../domain/ids.ts';
import { createCall } from '../store/calls.ts';
import { type EndpointView, findEndpoint } from '../store/endpoints.ts';
import { findOperation } from '../store/operations.ts';
import { lockLiveProject } from '../store/projects.ts';
import type { OperationRow } from '../store/schema.ts';
import { type AccessibleProject, findEndpointOf } from './access.ts';
import type { ActionContext } from './context.ts';
import { endpointOperation } from './endpoint-operations.ts';
import { requireQuota } from './require-quota.ts';

/** What starting an endpoint comes to: nothing, since it runs; a start that is under way; or a new one. */
type StartPlan =
  | { readonly do: 'nothing' }
  | { readonly do: 'join'; readonly operation_id: OperationId }
  | { readonly do: 'start' };

function planStart(endpoint: EndpointView | undefined): StartPlan {
  if (!endpoint) throw new CoppiceError('not_found', { noun: 'endpoint' });
  if (endpoint.disabled) throw new CoppiceError('endpoint_disabled', { id: endpoint.id });
  if (endpoint.last_unfinished === 'start_compute') return { do: 'join', operation_id: endpoint.last_unfinished_id! };
  // A start is queued behind a suspend that is under way, for those who came too late to stop it.
  const serves = endpoint.serves_timeline_id === endpoint.timeline_id;
  const runs = endpoint.observed_state === 'running' && serves && !endpoint.last_unfinished;
  return { do: runs ? 'nothing' : 'start' };
}

/**
 * Has an endpoint's compute start. Starts of one endpoint are one operation, however many ask for it. Throws when a quota is
 * used up.
 *
 * @returns the operation to wait for; undefined when the compute runs
 */
export async function ensureStart(
  context: Pick<ActionContext, 'store'>,
  id: EndpointId,
): Promise<OperationId | undefined> {
  // A look without locks first: it answers all but the first of many who ask at once.
  const endpoint = await findEndpoint(context.store, id);
  const plan = planStart(endpoint);
  if (plan.do !== 'start') return plan.do === 'join' ? plan.operation_id : undefined;
  return context.store.transaction().execute(async (trx) => {
    const project = await lockLiveProject(trx, endpoint!.project_id);
    const locked = await findEndpoint(trx, id);
    const final = planStart(locked);
    if (final.do !== 'start') return final.do === 'join' ? final.operation_id : undefined;
    requireQuota(project, locked!.logical_size_bytes ?? 0);
    const operations = await createCall(trx, endpoint!.project_id, [endpointOperation('start_compute', locked!)]);
    // Bringing its branch back from the archive may come first.
    return operations.at(-1)!.id;
  });
}

/** Starts an endpoint, or joins the start that is under way. No operation when it runs. */
export async function startEndpoint(
  context: ActionContext,
  project: AccessibleProject,
  id: EndpointId,
): Promise<{ endpoint: EndpointView; operations: OperationRow[] }> {
  await findEndpointOf(context.store, project, id);
  const operation_id = await ensureStart(context, id);
  const operation = operation_id && (await findOperation(context.store, operation_id));
  return {
    endpoint: await findEndpointOf(context.store, project, id),
    operations: operation ? [operation] : [],
  };
}
