import { randomUUID } from 'node:crypto';
import { hashApiKey, newApiKey } from '../../src/domain/credentials.ts';
import { newOrganizationId } from '../../src/domain/ids.ts';
import { sessionCookie } from '../../src/domain/session-cookie.ts';
import type { TestApi } from './api-server.ts';

/** A user, with a personal key. */
export interface Person {
  readonly id: string;
  readonly email: string;
  readonly key: string;
}

type KeyHolder = { user_id: string } | { organization_id: string; project_id?: string };

/** Writes a key, and gives its secret. */
export async function addKey({ store }: TestApi, created_by: string, holder: KeyHolder): Promise<string> {
  const secret = newApiKey();
  const kind = 'user_id' in holder ? 'personal' : holder.project_id ? 'project' : 'organization';
  await store.store
    .insertInto('api_keys')
    .values({ kind, name: 'test', secret_hash: hashApiKey(secret), created_by, ...holder })
    .execute();
  return secret;
}

/** Makes a user, who is a member of nothing unless a role is given. */
export async function addPerson(
  api: TestApi,
  membership?: { organization_id: string; role: 'admin' | 'member' },
): Promise<Person> {
  const { store } = api.store;
  const email = `${randomUUID()}@example.test`;
  const { id } = await store
    .insertInto('users')
    .values({ email, email_verified: true })
    .returning('id')
    .executeTakeFirstOrThrow();
  if (membership) {
    await store
      .insertInto('memberships')
      .values({ ...membership, user_id: id })
      .execute();
  }
  return { id, email, key: await addKey(api, id, { user_id: id }) };
}

/** Logs a user in, and gives the cookie, which `call` takes in place of a key. */
export async function addSession({ store, context }: TestApi, user_id: string): Promise<string> {
  const token = randomUUID();
  const expires_at = new Date(Date.now() + 3_600_000);
  await store.store.insertInto('coppice_auth.sessions').values({ user_id, token, expires_at }).execute();
  return sessionCookie(token, false, context.vault);
}

/** Makes an organisation without members. */
export async function addOrganization({ store }: TestApi): Promise<string> {
  const id = newOrganizationId();
  await store.store
    .insertInto('organizations')
    .values({ id, name: 'Elsewhere', handle: `elsewhere-${id}` })
    .execute();
  return id;
}
