import { type Insertable, sql } from 'kysely';
import type { BranchId, EndpointId, ProjectId } from '../domain/ids.ts';
import type { Store, StoreTransaction } from './connection.ts';
import type { ProjectJwksRow, ProjectJwksTable } from './schema.ts';

/** Of rows of `project_jwks`: not said of a deleted branch alone, which may come back. */
const IS_SHOWN = sql<boolean>`not exists (
  select from branches where branches.id = project_jwks.branch_id and branches.deleted_at is not null
)`;

/** Whose tokens are taken in a project, oldest first. */
export function listJwks(store: Store, project_id: ProjectId): Promise<ProjectJwksRow[]> {
  return store
    .selectFrom('project_jwks')
    .selectAll()
    .where('project_id', '=', project_id)
    .where(IS_SHOWN)
    .orderBy('created_at')
    .orderBy('id')
    .execute();
}

export async function countJwks(store: Store, project_id: ProjectId): Promise<number> {
  const { count } = await store
    .selectFrom('project_jwks')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('project_id', '=', project_id)
    .where(IS_SHOWN)
    .executeTakeFirstOrThrow();
  return count;
}

export function insertJwks(trx: StoreTransaction, jwks: Insertable<ProjectJwksTable>): Promise<ProjectJwksRow> {
  return trx.insertInto('project_jwks').values(jwks).returningAll().executeTakeFirstOrThrow();
}

/**
 * Removes an issuer from its project; undefined when it is not there.
 *
 * @param id a UUID
 */
export function deleteJwks(
  trx: StoreTransaction,
  project_id: ProjectId,
  id: string,
): Promise<ProjectJwksRow | undefined> {
  return trx
    .deleteFrom('project_jwks')
    .where('project_id', '=', project_id)
    .where('id', '=', id)
    .where(IS_SHOWN)
    .returningAll()
    .executeTakeFirst();
}

/** Nobody's tokens are taken in a project any more, as far as they were for all of its branches or for any one. */
export async function deleteJwksOfProject(trx: StoreTransaction, project_id: ProjectId): Promise<void> {
  await trx.deleteFrom('project_jwks').where('project_id', '=', project_id).execute();
}

/** Nobody's tokens are taken any more who was named for this branch alone. */
export async function deleteJwksOfBranch(trx: StoreTransaction, branch_id: BranchId): Promise<void> {
  await trx.deleteFrom('project_jwks').where('branch_id', '=', branch_id).execute();
}

/** What was said of one branch alone is said of another from now on. */
export async function moveJwks(trx: StoreTransaction, from: BranchId, to: BranchId): Promise<void> {
  await deleteJwksOfBranch(trx, to);
  await trx.updateTable('project_jwks').set({ branch_id: to }).where('branch_id', '=', from).execute();
}

/** Whose tokens let clients in at an endpoint, and as which roles. Empty for an unknown one. */
export async function findJwksOfEndpoint(
  store: Store,
  id: EndpointId,
): Promise<Pick<ProjectJwksRow, 'jwks_url' | 'jwt_audience' | 'role_names'>[]> {
  const { rows } = await sql<Pick<ProjectJwksRow, 'jwks_url' | 'jwt_audience' | 'role_names'>>`
    select project_jwks.jwks_url, project_jwks.jwt_audience, project_jwks.role_names
    from endpoints join project_jwks on project_jwks.project_id = endpoints.project_id
      and (project_jwks.branch_id is null or project_jwks.branch_id = endpoints.branch_id)
    where endpoints.id = ${id} and endpoints.deleted_at is null
    order by project_jwks.created_at, project_jwks.id`.execute(store);
  return rows;
}
