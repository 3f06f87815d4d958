import type { EndpointId } from '../domain/ids.ts';
import { createCall, type NewOperation } from '../store/calls.ts';
import type { StoreTransaction } from '../store/connection.ts';
import type { EndpointView } from '../store/endpoints.ts';
import { lockLiveProject } from '../store/projects.ts';
import type { OperationRow } from '../store/schema.ts';
import { type AccessibleProject, findEndpointOf } from './access.ts';
import type { ActionContext } from './context.ts';

/** Decides by an endpoint's state, which stays as it is meanwhile, what is to happen to it. */
export function changeEndpoint(
  context: ActionContext,
  project: AccessibleProject,
  id: EndpointId,
  decide: (endpoint: EndpointView, trx: StoreTransaction) => Promise<NewOperation[]> | NewOperation[],
): Promise<{ endpoint: EndpointView; operations: OperationRow[] }> {
  return context.store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project.id);
    const before = await findEndpointOf(trx, project, id);
    const operations = await createCall(trx, project.id, await decide(before, trx));
    return { endpoint: await findEndpointOf(trx, project, id), operations };
  });
}
