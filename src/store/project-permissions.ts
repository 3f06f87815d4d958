import { sql } from 'kysely';
import type { ProjectId, UserId } from '../domain/ids.ts';
import type { Store, StoreTransaction } from './connection.ts';
import type { ProjectPermissionRow } from './schema.ts';

/** Who may use the project beside its organisation, those first who were let in first. */
export function listProjectPermissions(store: Store, project_id: ProjectId): Promise<ProjectPermissionRow[]> {
  return store
    .selectFrom('project_permissions')
    .selectAll()
    .where('project_id', '=', project_id)
    .where('revoked_at', 'is', null)
    .orderBy('granted_at')
    .orderBy('id')
    .execute();
}

export async function countProjectPermissions(store: Store, project_id: ProjectId): Promise<number> {
  const { count } = await store
    .selectFrom('project_permissions')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('project_id', '=', project_id)
    .where('revoked_at', 'is', null)
    .executeTakeFirstOrThrow();
  return count;
}

/** Whether the project is shared with the user's address, whatever its case, and somebody vouches that it is this user's. */
export async function isSharedWith(store: Store, project_id: ProjectId, user_id: UserId): Promise<boolean> {
  const { rows } = await sql`
    select from users join project_permissions as shared on shared.email = lower(users.email)
    where users.id = ${user_id} and users.email_verified and shared.project_id = ${project_id}
      and shared.revoked_at is null`.execute(store);
  return rows.length > 0;
}

/** Shares a project with whoever has or will have this address; a permission that holds already is left as it is. */
export async function upsertProjectPermission(
  trx: StoreTransaction,
  { project_id, email, granted_by }: Pick<ProjectPermissionRow, 'project_id' | 'email' | 'granted_by'>,
): Promise<ProjectPermissionRow> {
  const { rows } = await sql<ProjectPermissionRow>`
    insert into project_permissions (project_id, email, granted_by)
    values (${project_id}, lower(${email}), ${granted_by})
    on conflict (email, project_id) where revoked_at is null do update set email = excluded.email
    returning *`.execute(trx);
  return rows[0]!;
}

/**
 * Ends a permission, from the next request on; undefined when the project has none of that id.
 *
 * @param id a UUID
 */
export function revokeProjectPermission(
  store: Store,
  project_id: ProjectId,
  id: string,
): Promise<ProjectPermissionRow | undefined> {
  return store
    .updateTable('project_permissions')
    .set({ revoked_at: sql<Date>`now()` })
    .where('project_id', '=', project_id)
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .returningAll()
    .executeTakeFirst();
}
