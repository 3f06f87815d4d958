import { CoppiceError } from '../domain/errors.ts';
import { LIMITS } from '../domain/limits.ts';
import { lockLiveProject } from '../store/projects.ts';
import type { TransferRequestRow } from '../store/schema.ts';
import { countTransferRequests, insertTransferRequest } from '../store/transfer-requests.ts';
import type { AccessibleProject } from './access.ts';
import { type Caller, callerUserId } from './caller.ts';
import type { ActionContext } from './context.ts';

/** Makes a request by whose id anybody may take the project, until it expires. Nothing of the project changes before. */
export function offerProject(
  { store }: Pick<ActionContext, 'store'>,
  caller: Caller,
  { id: project_id }: AccessibleProject,
  ttl_seconds: number = LIMITS.transfer_request_seconds_default,
): Promise<TransferRequestRow> {
  return store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project_id);
    const request = await insertTransferRequest(trx, { project_id, created_by: callerUserId(caller), ttl_seconds });
    const limit = LIMITS.transfer_requests_per_project;
    if ((await countTransferRequests(trx, project_id)) > limit) {
      throw new CoppiceError('transfer_requests_limit', { limit });
    }
    return request;
  });
}
