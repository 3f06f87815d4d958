import { hashApiKey, newApiKey } from '../domain/credentials.ts';
import type { UserId } from '../domain/ids.ts';
import { insertPersonalKey, type ListedApiKey } from '../store/api-keys.ts';
import type { ActionContext } from './context.ts';

/** Makes a personal key for a user. The secret is told this once. */
export async function createApiKey(
  { store }: Pick<ActionContext, 'store'>,
  { user_id, name }: { user_id: UserId; name: string },
): Promise<{ key: ListedApiKey; secret: string }> {
  const secret = newApiKey();
  return { key: await insertPersonalKey(store, { user_id, name, secret_hash: hashApiKey(secret) }), secret };
}
