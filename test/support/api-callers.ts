import { randomUUID } from 'node:crypto';
import { hashApiKey, newApiKey } from '../../src/domain/credentials.ts';
import { newOrganizationId } from '../../src/domain/ids.ts';
import type { TestApi } from './api-server.ts';

/** Keys of everybody who might call about a project. */
export interface ApiCallers {
  readonly admin: string;
  readonly member: string;
  /** A person of another organisation. */
  readonly outsider: string;
  readonly organization_key: string;
  readonly foreign_organization_key: string;
  readonly project_key: string;
  readonly foreign_project_key: string;
}

type KeyHolder = { user_id: string } | { organization_id: string; project_id?: string };

async function addKey({ store }: TestApi, created_by: string, holder: KeyHolder): Promise<string> {
  const secret = newApiKey();
  const kind = 'user_id' in holder ? 'personal' : holder.project_id ? 'project' : 'organization';
  await store.store
    .insertInto('api_keys')
    .values({ kind, name: 'test', secret_hash: hashApiKey(secret), created_by, ...holder })
    .execute();
  return secret;
}

async function addUser({ store }: TestApi): Promise<string> {
  const email = `${randomUUID()}@example.test`;
  return (await store.store.insertInto('users').values({ email }).returning('id').executeTakeFirstOrThrow()).id;
}

async function join({ store }: TestApi, organization_id: string, user_id: string, role: 'admin' | 'member') {
  await store.store.insertInto('memberships').values({ organization_id, user_id, role }).execute();
}

/** Makes keys of all kinds, for a project of the first user's organisation and for another organisation. */
export async function addCallers(
  api: TestApi,
  project: { readonly id: string; readonly org_id: string },
  foreign_project_id: string,
): Promise<ApiCallers> {
  const member = await addUser(api);
  await join(api, project.org_id, member, 'member');
  const outsider = await addUser(api);
  const foreign_id = newOrganizationId();
  await api.store.store
    .insertInto('organizations')
    .values({ id: foreign_id, name: 'Elsewhere', handle: `elsewhere-${foreign_id}` })
    .execute();
  await join(api, foreign_id, outsider, 'admin');
  const add = (created_by: string, holder: KeyHolder) => addKey(api, created_by, holder);
  return {
    admin: api.key,
    member: await add(member, { user_id: member }),
    outsider: await add(outsider, { user_id: outsider }),
    organization_key: await add(member, { organization_id: project.org_id }),
    foreign_organization_key: await add(outsider, { organization_id: foreign_id }),
    project_key: await add(member, { organization_id: project.org_id, project_id: project.id }),
    foreign_project_key: await add(member, { organization_id: project.org_id, project_id: foreign_project_id }),
  };
}
