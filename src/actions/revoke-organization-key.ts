import { CoppiceError } from '../domain/errors.ts';
import type { OrganizationId } from '../domain/ids.ts';
import { type ListedApiKey, revokeOrganizationKey as revoke } from '../store/api-keys.ts';
import type { ActionContext } from './context.ts';

/** Ends a key of an organisation or of one of its projects, at once and for good. `not_found` when there is none. */
export async function revokeOrganizationKey(
  { store }: Pick<ActionContext, 'store'>,
  { organization_id, key_id }: { organization_id: OrganizationId; key_id: number },
): Promise<ListedApiKey> {
  const revoked = await revoke(store, organization_id, key_id);
  if (!revoked) throw new CoppiceError('not_found', { noun: 'API key' });
  return revoked;
}
