import { CoppiceError } from '../domain/errors.ts';
import type { UserId } from '../domain/ids.ts';
import { type ListedApiKey, revokePersonalKey } from '../store/api-keys.ts';
import type { ActionContext } from './context.ts';

/** Ends a personal key of the user, at once and for good. `not_found` when there is none, or no longer. */
export async function revokeApiKey(
  { store }: Pick<ActionContext, 'store'>,
  { user_id, key_id }: { user_id: UserId; key_id: number },
): Promise<ListedApiKey> {
  const revoked = await revokePersonalKey(store, user_id, key_id);
  if (!revoked) throw new CoppiceError('not_found', { noun: 'API key' });
  return revoked;
}
