import { type Insertable, sql, type Updateable } from 'kysely';
import type { BranchId, ProjectId } from '../domain/ids.ts';
import type { Usage } from '../domain/usage.ts';
import { anyOf } from './any-of.ts';
import { coalesced } from './coalesced.ts';
import type { Store, StoreTransaction } from './connection.ts';
import { nameOrIdHas } from './name-search.ts';
import type { BranchesTable, BranchRow } from './schema.ts';
import { BRANCH_USAGE } from './usage-view.ts';

/** A branch with what its shown state is computed from. */
export interface BranchView extends BranchRow {
  /** When its volume stood; null too while a restore that it is to keep the old state of may still fail. */
  readonly ready_at: Date | null;
  /** It is being restored, or is to keep what the branch was that is being restored. */
  readonly in_restore: boolean;
  /** Since when its timeline is in object storage alone; null where its whole project is, which nobody is shown. */
  readonly archived_at: Date | null;
  readonly unarchived_at: Date | null;
  /** What is under way to or from the archive, the last of it. */
  readonly archive_pending: 'timeline_archive' | 'timeline_unarchive' | null;
  readonly logical_size_bytes: number | null;
  /** What it has used. */
  readonly usage: Usage | null;
  /** The distribution that its volume is pinned to. */
  readonly distribution_id: string;
  /** Name or e-mail address of the user who made it; null when the platform did. */
  readonly creator: string | null;
}

export type BranchSortColumn = 'name' | 'created_at' | 'updated_at';

/** The place of a branch in a list: the text of its sort column, microseconds and all, and its id. */
export interface BranchListPosition {
  readonly key: string;
  readonly id: string;
}

export interface BranchListOptions {
  /** Part of a name or an id. */
  readonly search?: string;
  readonly sort_by: BranchSortColumn;
  readonly sort_order: 'asc' | 'desc';
  readonly after?: BranchListPosition;
  readonly limit?: number;
  /** Those as well that were deleted since and can come back. */
  readonly deleted_since?: Date;
}

/** The branch has the timeline of one that is being restored, to which it returns if that fails. */
const IS_PRESERVED_SOON = sql<boolean>`exists (
  select from branches restored
  where restored.previous_timeline_id = branches.timeline_id
)`;

/** Passing copies for clients who look into the past are none of the branches that anybody sees. */
const LASTING = sql<boolean>`branches.ephemeral_of is null`;

const ARCHIVE_PENDING = sql<'timeline_archive' | 'timeline_unarchive' | null>`(
  select operations.action from operations
  where operations.project_id = branches.project_id and operations.timeline_id = branches.timeline_id
    and operations.status in ('scheduling', 'running')
    and operations.action in ('timeline_archive', 'timeline_unarchive')
  order by operations.created_at desc limit 1
)`;

function branchViews(store: Store) {
  return store
    .selectFrom('branches')
    .innerJoin('timelines', 'timelines.id', 'branches.timeline_id')
    .leftJoin('users', 'users.id', 'branches.created_by')
    .selectAll('branches')
    .select(['timelines.logical_size_bytes', 'timelines.distribution_id', BRANCH_USAGE.as('usage')])
    .select(['timelines.unarchived_at', ARCHIVE_PENDING.as('archive_pending')])
    .select(sql<Date | null>`case when timelines.detached_at is null then timelines.archived_at end`.as('archived_at'))
    .select(sql<Date | null>`case when not ${IS_PRESERVED_SOON} then timelines.ready_at end`.as('ready_at'))
    .select(sql<boolean>`branches.previous_timeline_id is not null or ${IS_PRESERVED_SOON}`.as('in_restore'))
    .select(sql<string | null>`coalesce(nullif(users.name, ''), users.email)`.as('creator'))
    .where(LASTING);
}

/** A branch by id, whatever its project. */
export const findBranch = coalesced<BranchId, BranchView>(async (store, ids) => {
  const rows = await branchViews(store)
    .where('branches.id', '=', anyOf(ids))
    .where('branches.deleted_at', 'is', null)
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
});

/** A branch that was deleted since a time, and can come back. */
export function findKeptBranch(store: Store, id: string, since: Date): Promise<BranchView | undefined> {
  return branchViews(store)
    .where('branches.id', '=', id)
    .where('branches.deletion_method', 'is not', null)
    .where('branches.deleted_at', '>', since)
    .executeTakeFirst();
}

/** A branch whether it lives or not: what a deletion shows. */
export function findBranchEvenDeleted(store: Store, id: string): Promise<BranchView> {
  return branchViews(store).where('branches.id', '=', id).executeTakeFirstOrThrow();
}

export function findDefaultBranch(store: Store, project_id: string): Promise<BranchView | undefined> {
  return branchViews(store)
    .where('branches.project_id', '=', project_id)
    .where('branches.is_default', '=', true)
    .where('branches.deleted_at', 'is', null)
    .executeTakeFirst();
}

/** A project's branches that anybody sees, or those among them that a search finds. */
function isListed(
  project_id: string,
  { search = '', deleted_since }: Pick<BranchListOptions, 'search' | 'deleted_since'>,
) {
  const there = deleted_since
    ? sql`(branches.deleted_at is null or branches.deletion_method is not null)
        and (branches.deleted_at is null or branches.deleted_at > ${deleted_since})`
    : sql`branches.deleted_at is null`;
  const found = search === '' ? sql`true` : nameOrIdHas('branches', search);
  return sql<boolean>`branches.project_id = ${project_id} and ${there} and ${LASTING} and ${found}`;
}

/** The project's branches, all or a page, each with its key in the list. */
export function listBranches(
  store: Store,
  project_id: string,
  { sort_by, sort_order, after, limit, ...which }: BranchListOptions,
): Promise<(BranchView & { readonly sort_key: string })[]> {
  const column = sql.ref(`branches.${sort_by}`);
  // Names go by code point, so that a place in the list does not depend on a collation, which may change under us.
  const sort = sort_by === 'name' ? sql`${column} collate "C"` : column;
  const type = sql.raw(sort_by === 'name' ? 'text' : 'timestamptz');
  const beyond = sql.raw(sort_order === 'asc' ? '>' : '<');
  const order = sql`${sort} ${sql.raw(sort_order)}, branches.id ${sql.raw(sort_order)}`;
  const behind = after && sql`(${sort}, branches.id) ${beyond} (${after.key}::${type}, ${after.id})`;
  const listed = sql<boolean>`${isListed(project_id, which)} and ${behind ?? sql`true`}`;
  // As an array it is found first and by an index alone, and only what is on the page is looked at closer.
  const page = sql<boolean>`branches.id = any(array(select id from branches where ${listed} order by ${order} limit ${limit}))`;
  return branchViews(store)
    .select(sql<string>`${column}::text`.as('sort_key'))
    .where(limit === undefined ? listed : page)
    .orderBy(sort, sort_order)
    .orderBy('branches.id', sort_order)
    .execute();
}

export async function countBranches(store: Store, project_id: string, search?: string): Promise<number> {
  const { count } = await store
    .selectFrom('branches')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where(isListed(project_id, { search }))
    .executeTakeFirstOrThrow();
  return count;
}

/** The id of the project's branch of that name. */
export async function findBranchIdByName(
  store: Store,
  project_id: string,
  name: string,
): Promise<BranchId | undefined> {
  const row = await store
    .selectFrom('branches')
    .select('id')
    .where('project_id', '=', project_id)
    .where('name', '=', name)
    .where('deleted_at', 'is', null)
    .where(LASTING)
    .executeTakeFirst();
  return row?.id;
}

/** The project's protected branches, oldest first. */
export function listProtectedBranches(store: Store, project_id: ProjectId): Promise<Pick<BranchRow, 'id' | 'name'>[]> {
  return store
    .selectFrom('branches')
    .select(['id', 'name'])
    .where('project_id', '=', project_id)
    .where('protected', '=', true)
    .where('deleted_at', 'is', null)
    .orderBy('created_at')
    .execute();
}

/** The living children of a branch, oldest first. */
export function listChildren(store: Store, id: string): Promise<Pick<BranchRow, 'id' | 'name'>[]> {
  return store
    .selectFrom('branches')
    .select(['id', 'name'])
    .where('parent_id', '=', id)
    .where('deleted_at', 'is', null)
    .orderBy('created_at')
    .execute();
}

export function insertBranch(trx: StoreTransaction, branch: Insertable<BranchesTable>): Promise<BranchRow> {
  return trx.insertInto('branches').values(branch).returningAll().executeTakeFirstOrThrow();
}

/** Changes a branch's intent. */
export async function updateBranch(
  trx: StoreTransaction,
  id: string,
  changes: Pick<Updateable<BranchesTable>, 'name' | 'protected' | 'expires_at' | 'ttl_interval_seconds'>,
): Promise<void> {
  await trx
    .updateTable('branches')
    .set({ ...changes, updated_at: sql<Date>`now()` })
    .where('id', '=', id)
    .execute();
}

/** Makes a branch the project's default one, and no other. */
export async function markBranchDefault(trx: StoreTransaction, project_id: string, id: string): Promise<void> {
  await trx
    .updateTable('branches')
    .set({ is_default: false, updated_at: sql<Date>`now()` })
    .where('project_id', '=', project_id)
    .where('is_default', '=', true)
    .where('id', '<>', id)
    .execute();
  await trx
    .updateTable('branches')
    .set({ is_default: true, updated_at: sql<Date>`now()` })
    .where('id', '=', id)
    .where('is_default', '=', false)
    .execute();
}

/** Holds a branch's roles and databases as they are: whoever changes them, or takes over what SQL did, waits. */
export async function lockBranchConfig(trx: StoreTransaction, id: string): Promise<void> {
  await sql`select from branches where id = ${id} for no key update`.execute(trx);
}

/** Says that roles or databases of a branch changed; the next apply_config or start brings them to its server. */
export async function bumpConfigGeneration(trx: StoreTransaction, id: string): Promise<void> {
  await trx
    .updateTable('branches')
    .set((eb) => ({ config_generation: eb('config_generation', '+', 1) }))
    .where('id', '=', id)
    .execute();
}

/** Gives the children of a branch that live or can come back, but for the new parent itself, to another one. */
export async function moveChildren(trx: StoreTransaction, from: BranchId, to: BranchId): Promise<void> {
  await trx
    .updateTable('branches')
    .set({ parent_id: to })
    .where('parent_id', '=', from)
    .where('id', '<>', to)
    .where(sql<boolean>`(deleted_at is null or deletion_method is not null)`)
    .execute();
}

/** How a deleted branch was deleted that is kept for a while. */
export type DeletionMethod = NonNullable<BranchRow['deletion_method']>;

/** Says that a branch is to go, for good unless a method is given. Its name is free with the commit. */
export async function markBranchDeleted(trx: StoreTransaction, id: string, method?: DeletionMethod): Promise<void> {
  await trx
    .updateTable('branches')
    .set({ deleted_at: sql<Date>`now()`, updated_at: sql<Date>`now()`, deletion_method: method ?? null })
    .where('id', '=', id)
    .execute();
}

/** Branches whose time is over, those that wait longest first. */
export function findExpiringBranches(
  store: Store,
  before: Date,
): Promise<(Pick<BranchRow, 'id' | 'project_id'> & { expires_at: Date })[]> {
  return store
    .selectFrom('branches')
    .select(['id', 'project_id', 'expires_at'])
    .where('deleted_at', 'is', null)
    .where('expires_at', '<=', before)
    .$narrowType<{ expires_at: Date }>()
    .orderBy('expires_at')
    .limit(100)
    .execute();
}
