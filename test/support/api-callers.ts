import type { TestApi } from './api-server.ts';
import { addKey, addOrganization, addPerson, addSession } from './people.ts';

/** Keys of everybody who might call about a project. */
export interface ApiCallers {
  readonly admin: string;
  /** The admin, logged in. */
  readonly session: string;
  readonly member: string;
  /** A person of another organisation. */
  readonly outsider: string;
  /** A person of another organisation whom the project is shared with. */
  readonly shared: string;
  readonly organization_key: string;
  readonly foreign_organization_key: string;
  readonly project_key: string;
  readonly foreign_project_key: string;
}

/** Makes keys of all kinds, for a project of the first user's organisation and for another organisation. */
export async function addCallers(
  api: TestApi,
  project: { readonly id: string; readonly org_id: string },
  foreign_project_id: string,
): Promise<ApiCallers> {
  const { id: admin_id } = (await api.call('GET', '/users/me')).body;
  const member = await addPerson(api, { organization_id: project.org_id, role: 'member' });
  const foreign_id = await addOrganization(api);
  const outsider = await addPerson(api, { organization_id: foreign_id, role: 'admin' });
  const shared = await addPerson(api, { organization_id: foreign_id, role: 'admin' });
  await api.store.store
    .insertInto('project_permissions')
    .values({ project_id: project.id, email: shared.email, granted_by: member.id })
    .execute();
  return {
    admin: api.key,
    session: await addSession(api, admin_id),
    member: member.key,
    outsider: outsider.key,
    shared: shared.key,
    organization_key: await addKey(api, member.id, { organization_id: project.org_id }),
    foreign_organization_key: await addKey(api, outsider.id, { organization_id: foreign_id }),
    project_key: await addKey(api, member.id, { organization_id: project.org_id, project_id: project.id }),
    foreign_project_key: await addKey(api, member.id, {
      organization_id: project.org_id,
      project_id: foreign_project_id,
    }),
  };
}
