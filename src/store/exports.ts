import { type Kysely, sql } from 'kysely';
import type { Store } from './connection.ts';
import type { ExportBase, ExportRow, Schema } from './schema.ts';

/** Any constant: the class of the locks, whose objects are the numbers of the exports. */
const LOCK_CLASS = 7_432_011;
/** Of locks whose objects are hashes of where an export writes. */
const WRITER_LOCK_CLASS = 7_432_012;

/** A branch by what people type. */
export interface ExportedBranch {
  readonly id: string;
  readonly name: string;
  readonly is_default: boolean;
  readonly project_id: string;
  /** Of its read_write endpoint. */
  readonly endpoint_id: string | null;
}

/**
 * Branches of the projects of that id or name: those of that id or name, or the default ones. More than one where several
 * projects have the name.
 */
export async function findBranchesToExport(
  store: Store,
  { project, branch }: { readonly project: string; readonly branch?: string },
): Promise<ExportedBranch[]> {
  const { rows } = await sql<ExportedBranch>`
    select branches.id, branches.name, branches.is_default, branches.project_id, endpoints.id as endpoint_id
    from projects join branches on branches.project_id = projects.id
    left join endpoints on endpoints.branch_id = branches.id and endpoints.type = 'read_write'
      and endpoints.deleted_at is null
    where projects.deleted_at is null and branches.deleted_at is null and branches.ephemeral_of is null
      and (projects.id = ${project} or projects.name = ${project})
      and case when ${branch ?? null}::text is null then branches.is_default
        else ${branch ?? null}::text in (branches.id, branches.name) end
    order by branches.id limit 3`.execute(store);
  return rows;
}

/**
 * Asks the engine for a base of a branch, which stays as long as `work` goes on. The locks belong to the session that is
 * held meanwhile, and so go with whoever is killed.
 *
 * @param target where it is written, which one export does at a time
 * @returns undefined, without doing anything, while another one writes there
 */
export function withExport<T>(
  store: Store,
  { branch_id, target }: { readonly branch_id: string; readonly target: string },
  work: (id: string) => Promise<T>,
): Promise<T | undefined> {
  return store.connection().execute(async (held) => {
    const { rows } = await sql<{ locked: boolean }>`
      select pg_try_advisory_lock(${WRITER_LOCK_CLASS}::integer, hashtext(${target})) as locked`.execute(held);
    if (!rows[0]!.locked) return undefined;
    const row = await held.transaction().execute(async (trx) => {
      const inserted = await trx
        .insertInto('exports')
        .values({ branch_id })
        .returning(['id', 'number'])
        .executeTakeFirstOrThrow();
      await sql`select pg_advisory_lock(${LOCK_CLASS}::integer, ${inserted.number}::integer)`.execute(trx);
      return inserted;
    });
    try {
      return await work(row.id);
    } finally {
      await end(held, row).catch(() => undefined);
      const unlock = sql`select pg_advisory_unlock(${WRITER_LOCK_CLASS}::integer, hashtext(${target}))`;
      await unlock.execute(held).catch(() => undefined);
    }
  });
}

async function end(held: Kysely<Schema>, { id, number }: Pick<ExportRow, 'id' | 'number'>): Promise<void> {
  await sql`select pg_advisory_unlock(${LOCK_CLASS}::integer, ${number}::integer)`.execute(held);
  await held.updateTable('exports').set({ ended_at: sql<Date>`clock_timestamp()` }).where('id', '=', id).execute();
}

export function findExport(store: Store, id: string): Promise<ExportRow | undefined> {
  return store.selectFrom('exports').selectAll().where('id', '=', id).executeTakeFirst();
}

/** An export as the engine sees it. */
export interface ExportTask extends ExportRow {
  /** Somebody waits for it or reads it. */
  readonly held: boolean;
  readonly timeline_id: string;
  readonly branch_deleted_at: Date | null;
  /** `settings.pg_settings` of the read_write endpoint. */
  readonly pg_settings: Readonly<Record<string, string>> | null;
}

/** All there are: those that ended stay until nothing is left of them. */
export async function findExports(store: Store): Promise<ExportTask[]> {
  const { rows } = await sql<ExportTask>`
    select exports.*, branches.timeline_id, branches.deleted_at as branch_deleted_at, endpoints.pg_settings, exists (
      select from pg_locks
      where locktype = 'advisory' and granted and classid = ${LOCK_CLASS}::oid and objid = exports.number::oid
        and objsubid = 2 and database = (select oid from pg_database where datname = current_database())
    ) as held
    from exports join branches on branches.id = exports.branch_id
    left join endpoints on endpoints.branch_id = branches.id and endpoints.type = 'read_write'
      and endpoints.deleted_at is null
    order by exports.number`.execute(store);
  return rows;
}

export async function observeExport(
  store: Store,
  id: string,
  seen: { readonly begun_at: Date } | { readonly base: ExportBase } | { readonly error: string },
): Promise<void> {
  await store
    .updateTable('exports')
    .set('base' in seen ? { base: JSON.stringify(seen.base) } : seen)
    .where('id', '=', id)
    .execute();
}

/** Nothing is left of it. */
export async function deleteExport(store: Store, id: string): Promise<void> {
  await store.deleteFrom('exports').where('id', '=', id).execute();
}
