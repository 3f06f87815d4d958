import { CoppiceError } from '../domain/errors.ts';
import type { OrganizationId } from '../domain/ids.ts';
import { revokeKeysOfProject } from '../store/api-keys.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { setProjectOrganization } from '../store/projects.ts';
import type { ProjectRow } from '../store/schema.ts';
import { deleteTransferRequests } from '../store/transfer-requests.ts';
import { deleteWebhooksOfProject } from '../store/webhooks.ts';

/**
 * Gives a project, whose row the caller has locked, to an organisation: who belonged to the old one has nothing to do with it
 * from the next request on; its keys and webhooks end for good, and so do other requests for it. People whom it is shared with keep that;
 * computes and clients notice nothing.
 */
export async function moveProject(
  trx: StoreTransaction,
  { id, organization_id }: ProjectRow,
  to: OrganizationId,
): Promise<void> {
  if (organization_id === to) throw new CoppiceError('project_already_there', { project_id: id, org_id: to });
  await setProjectOrganization(trx, id, to);
  await revokeKeysOfProject(trx, id);
  await deleteTransferRequests(trx, id);
  await deleteWebhooksOfProject(trx, id);
}
