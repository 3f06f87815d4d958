import { type SqlBool, sql } from 'kysely';
import { anyOf } from './any-of.ts';
import type { Store, StoreTransaction } from './connection.ts';

/**
 * Rows of what was deleted before a time, and whose data is gone. Each is forgotten when nothing refers to it any more, so that
 * what was made of something is forgotten before it, sooner or later. Rows of projects stay, since cursors lead to them.
 */

/** Of rows with a `project_id`: it is a project that cannot come back with what was deleted with it. */
const stays = (table: 'endpoints' | 'snapshots') =>
  sql<SqlBool>`exists (
    select from projects where projects.id = ${sql.ref(`${table}.project_id`)}
      and (projects.deleted_at is null or projects.purged_at is not null)
  )`;

/** Snapshots of the API. Returns how many rows went. */
export async function forgetDeletedSnapshots(store: Store, before: Date, most: number): Promise<number> {
  return countOf(
    await sql`
      delete from snapshots where id in (
        select snapshots.id from snapshots join timelines on timelines.id = snapshots.timeline_id
        where snapshots.deleted_at < ${before} and timelines.purged_at < ${before} and ${stays('snapshots')}
        order by snapshots.deleted_at limit ${most}
      )`.execute(store),
  );
}

/** Endpoints that have nothing on this machine, but those of branches that may come back. Returns how many rows went. */
export async function forgetDeletedEndpoints(store: Store, before: Date, most: number): Promise<number> {
  return countOf(
    await sql`
      delete from endpoints where id in (
        select endpoints.id from endpoints
        where endpoints.deleted_at < ${before} and endpoints.compute is null and ${stays('endpoints')} and not exists (
          select from branches where branches.id = endpoints.branch_id and branches.deletion_method is not null
        )
        order by endpoints.deleted_at limit ${most}
      )`.execute(store),
  );
}

/** Branches, with what belongs to them alone. Returns how many went. */
export async function forgetDeletedBranches(trx: StoreTransaction, before: Date, most: number): Promise<number> {
  const { rows } = await sql<{ id: string }>`
    select branches.id from branches join timelines on timelines.id = branches.timeline_id
    where branches.deleted_at < ${before} and branches.deletion_method is null and timelines.purged_at < ${before}
      and not exists (select from branches other where other.parent_id = branches.id)
      and not exists (select from branches other where other.restored_as = branches.id)
      and not exists (select from branches other where other.ephemeral_of = branches.id)
      and not exists (select from endpoints where endpoints.branch_id = branches.id)
      and not exists (select from snapshots where snapshots.source_branch_id = branches.id)
      and not exists (select from exports where exports.branch_id = branches.id)
      and not exists (
        select from branch_restores where branches.id in (branch_id, preserved_branch_id, branch_restores.parent_id)
      )
    order by branches.deleted_at limit ${most}
    for update of branches skip locked`.execute(trx);
  const ids = rows.map(({ id }) => id);
  if (ids.length === 0) return 0;
  // Nobody did this: what went was deleted before, and that is in the log.
  await sql`set local coppice.audit = 'off'`.execute(trx);
  for (const table of [
    'roles',
    'databases',
    'backup_schedules',
    'project_jwks',
    'branch_usage',
    'branch_maskings',
  ] as const) {
    await trx.deleteFrom(table).where('branch_id', '=', anyOf(ids)).execute();
  }
  await trx.deleteFrom('branches').where('id', '=', anyOf(ids)).execute();
  return ids.length;
}

/** Timelines, with what was once wrong with their histories. Returns how many went. */
export async function forgetPurgedTimelines(trx: StoreTransaction, before: Date, most: number): Promise<number> {
  const { rows } = await sql<{ id: string }>`
    select id from timelines
    where timelines.purged_at < ${before}
      and not exists (select from timelines child where child.parent_id = timelines.id)
      and not exists (select from branches where branches.timeline_id = timelines.id)
      and not exists (select from branches where branches.previous_timeline_id = timelines.id)
      and not exists (select from endpoints where endpoints.serves_timeline_id = timelines.id)
      and not exists (select from endpoints where endpoints.replica_timeline_id = timelines.id)
      and not exists (select from snapshots where snapshots.timeline_id = timelines.id)
      and not exists (select from timeline_snapshots where timeline_snapshots.timeline_id = timelines.id)
    order by timelines.purged_at limit ${most}
    for update of timelines skip locked`.execute(trx);
  const ids = rows.map(({ id }) => id);
  if (ids.length === 0) return 0;
  await trx.deleteFrom('history_damages').where('timeline_id', '=', anyOf(ids, 'uuid')).execute();
  await trx.deleteFrom('timelines').where('id', '=', anyOf(ids, 'uuid')).execute();
  return ids.length;
}

const countOf = ({ numAffectedRows }: { readonly numAffectedRows?: bigint }): number => Number(numAffectedRows ?? 0n);
