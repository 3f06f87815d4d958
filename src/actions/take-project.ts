import { CoppiceError } from '../domain/errors.ts';
import type { OrganizationId, ProjectId } from '../domain/ids.ts';
import { lockLiveProject } from '../store/projects.ts';
import { hasTransferRequest } from '../store/transfer-requests.ts';
import { chooseOrganization } from './access.ts';
import type { Caller } from './caller.ts';
import type { ActionContext } from './context.ts';
import { moveProject } from './move-project.ts';

/**
 * Takes a project that was offered into the organisation that is named, or the only one that the caller has to do with. A
 * request that is unknown, expired, used, or of another project is `not_found`.
 */
export async function takeProject(
  { store }: Pick<ActionContext, 'store'>,
  caller: Caller,
  { project_id, request_id, org_id }: { project_id: ProjectId; request_id: string; org_id?: OrganizationId },
): Promise<void> {
  const to = chooseOrganization(caller, org_id);
  await store.transaction().execute(async (trx) => {
    const project = await lockLiveProject(trx, project_id).catch(refuse);
    if (!(await hasTransferRequest(trx, project_id, request_id))) throw unknownRequest();
    await moveProject(trx, project, to);
  });
}

const unknownRequest = () => new CoppiceError('not_found', { noun: 'transfer request' });

/** Whoever has no request is not told which projects there are. */
function refuse(error: unknown): never {
  throw error instanceof CoppiceError && error.kind === 'not_found' ? unknownRequest() : error;
}
