import { hashApiKey, newApiKey } from '../domain/credentials.ts';
import type { UserId } from '../domain/ids.ts';
import { insertPersonalKey, type ListedApiKey } from '../store/api-keys.ts';
import type { ActionContext } from './context.ts';

/** Makes a personal key for a user. The secret is told this once. */
export async function createApiKey(
  { store }: Pick<ActionContext, 'store'>,
  { user_id, name, read_only = false }: { user_id: UserId; name: string; read_only?: boolean },
): Promise<{ key: ListedApiKey; secret: string }> {
  const secret = newApiKey();
  const secret_hash = hashApiKey(secret);
  return { key: await insertPersonalKey(store, { user_id, name, secret_hash, read_only }), secret };
}
