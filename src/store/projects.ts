import { type Insertable, sql, type Updateable } from 'kysely';
import { CoppiceError } from '../domain/errors.ts';
import type { OrganizationId, ProjectId, UserId } from '../domain/ids.ts';
import type { ProjectUsage } from '../domain/usage.ts';
import { anyOf } from './any-of.ts';
import { coalesced } from './coalesced.ts';
import type { Store, StoreTransaction } from './connection.ts';
import { nameOrIdHas } from './name-search.ts';
import type { ProjectRow, ProjectsTable } from './schema.ts';
import { PROJECT_USAGE } from './usage-view.ts';

/** A project with what it has used. */
export interface ProjectView extends ProjectRow {
  readonly usage: ProjectUsage | null;
}

/** A project that is not deleted. */
export const findProject = coalesced<string, ProjectView>(async (store, ids) => {
  const rows = await store
    .selectFrom('projects')
    .selectAll()
    .select(PROJECT_USAGE.as('usage'))
    .where('id', '=', anyOf(ids))
    .where('deleted_at', 'is', null)
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
});

/**
 * Locks the project until the transaction ends and returns it as it is now. Every change below a project begins with
 * this: what is read afterwards stays true. Throws `not_found` when it was deleted meanwhile.
 */
export async function lockLiveProject(trx: StoreTransaction, id: string): Promise<ProjectView> {
  const row = await trx
    .selectFrom('projects')
    .selectAll()
    .select(PROJECT_USAGE.as('usage'))
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .forNoKeyUpdate()
    .executeTakeFirst();
  if (!row) throw new CoppiceError('not_found', { noun: 'project' });
  return row;
}

export interface ProjectListOptions {
  /** Part of a name or an id. */
  readonly search?: string;
  /** The last project of the page before. */
  readonly cursor?: ProjectId;
  readonly limit: number;
}

/** The organisation's projects, newest first. */
export function listProjects(
  store: Store,
  organization_id: OrganizationId,
  options: ProjectListOptions,
): Promise<ProjectView[]> {
  return projectPage(store, options).where('organization_id', '=', organization_id).execute();
}

/** Projects of organisations that a user is no member of, but that are shared with the user's address; newest first. */
export function listSharedProjects(
  store: Store,
  user: { readonly id: UserId; readonly email: string },
  options: ProjectListOptions,
): Promise<ProjectView[]> {
  return projectPage(store, options)
    .where(
      sql<boolean>`id in (
        select project_id from users join project_permissions as shared on shared.email = lower(users.email)
        where users.id = ${user.id} and users.email_verified and shared.revoked_at is null)`,
    )
    .where(sql<boolean>`organization_id not in (select organization_id from memberships where user_id = ${user.id})`)
    .execute();
}

function projectPage(store: Store, { search = '', cursor, limit }: ProjectListOptions) {
  return store
    .selectFrom('projects')
    .selectAll()
    .select(PROJECT_USAGE.as('usage'))
    .where('deleted_at', 'is', null)
    .$if(search !== '', (query) => query.where(nameOrIdHas('projects', search)))
    .$if(cursor !== undefined, (query) =>
      // Rows of deleted projects stay, so that a cursor stays good.
      query.where(sql<boolean>`(created_at, id) < (select created_at, id from projects where id = ${cursor})`),
    )
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit);
}

/** Any constant: projects that are made at the same time get different uids. */
const UID_LOCK = 7_432_003;

/** Writes a project with the smallest uid from `uid_base` on that no project uses whose data is still there. */
export async function insertProject(
  trx: StoreTransaction,
  project: Omit<Insertable<ProjectsTable>, 'uid'>,
  uid_base: number,
): Promise<ProjectRow> {
  await sql`select pg_advisory_xact_lock(${UID_LOCK})`.execute(trx);
  const { rows } = await sql<{ uid: number }>`
    select min(uid) as uid from (
      select ${uid_base}::integer as uid
      union all
      select uid + 1 from projects where purged_at is null and uid >= ${uid_base}
    ) candidates
    where not exists (select from projects where projects.uid = candidates.uid and purged_at is null)`.execute(trx);
  return trx
    .insertInto('projects')
    .values({ ...project, uid: rows[0]!.uid })
    .returningAll()
    .executeTakeFirstOrThrow();
}

/** Changes a project's intent. */
export function updateProjectRow(
  trx: StoreTransaction,
  id: ProjectId,
  changes: Pick<
    Updateable<ProjectsTable>,
    'name' | 'history_retention_seconds' | 'default_endpoint_settings' | 'settings'
  >,
): Promise<ProjectRow> {
  return trx
    .updateTable('projects')
    .set({ ...changes, updated_at: sql<Date>`now()` })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
}

/** Says whose a project is from now on. */
export async function setProjectOrganization(
  trx: StoreTransaction,
  id: ProjectId,
  organization_id: OrganizationId,
): Promise<void> {
  await trx
    .updateTable('projects')
    .set({ organization_id, updated_at: sql<Date>`now()` })
    .where('id', '=', id)
    .execute();
}

/**
 * Says that a project is to go, with its branches and endpoints: nothing of it answers from the commit on. One that may come
 * back keeps its timelines.
 */
export async function markProjectDeleted(
  trx: StoreTransaction,
  id: ProjectId,
  may_return: boolean,
): Promise<ProjectRow> {
  for (const table of ['endpoints', 'branches'] as const) {
    await sql`update ${sql.table(table)} set deleted_at = now(), updated_at = now()
      where project_id = ${id} and deleted_at is null`.execute(trx);
  }
  for (const table of may_return ? (['snapshots'] as const) : (['timelines', 'snapshots'] as const)) {
    await sql`update ${sql.table(table)} set deleted_at = now()
      where project_id = ${id} and deleted_at is null`.execute(trx);
  }
  return trx
    .updateTable('projects')
    .set({ deleted_at: sql<Date>`now()`, updated_at: sql<Date>`now()` })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
}
