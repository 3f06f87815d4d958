import type { ListedApiKey as ApiKey } from '../../store/api-keys.ts';
import type { CreatedApiKey, ListedApiKey, RevokedApiKey } from '../schemas/api-key.ts';
import { timestamp } from './timestamp.ts';

const facts = (key: ApiKey) => ({
  id: key.id,
  name: key.name,
  created_at: timestamp(key.created_at),
  project_id: key.project_id ?? undefined,
  read_only: key.read_only || undefined,
});

const use = (key: ApiKey) => ({
  last_used_at: key.last_used_at && timestamp(key.last_used_at),
  last_used_from_addr: key.last_used_from_addr ?? '',
});

/** A key in the list of its owner; `creator` is the name of whoever made it. */
export function serializeListedApiKey(key: ApiKey, creator: string): ListedApiKey {
  return { ...facts(key), created_by: { id: key.created_by, name: creator, image: '' }, ...use(key) };
}

/** A new key: the only answer that holds the secret. */
export function serializeCreatedApiKey(key: ApiKey, secret: string): CreatedApiKey {
  return { ...facts(key), key: secret, created_by: key.created_by };
}

export function serializeRevokedApiKey(key: ApiKey): RevokedApiKey {
  return { ...facts(key), created_by: key.created_by, ...use(key), revoked: key.revoked_at !== null };
}
