import { sql } from 'kysely';
import type { BranchId, OrganizationId, ProjectId } from '../domain/ids.ts';
import type { Granularity, Timeframe } from '../domain/timeframes.ts';
import { anyOf } from './any-of.ts';
import type { Store } from './connection.ts';
import type { StorageHoursTable } from './metering-schema.ts';

/** Reads what was added up. Nothing here asks a compute. */

/** Something that uses; it may be deleted by now. */
export interface Consumer {
  readonly id: string;
  readonly project_id: ProjectId;
  readonly created_at: Date;
  readonly deleted_at: Date | null;
}

export interface ConsumerPage {
  /** Only these. */
  readonly ids?: readonly string[];
  /** The last one of the page before. */
  readonly cursor?: string;
  readonly limit: number;
  /** Those that were deleted before are left out. */
  readonly since: Date;
}

/** Projects of an organisation, newest first. */
export function listConsumingProjects(
  store: Store,
  organization_id: OrganizationId,
  { ids, cursor, limit, since }: ConsumerPage,
): Promise<Consumer[]> {
  return store
    .selectFrom('projects')
    .select(['id', 'id as project_id', 'created_at', 'deleted_at'])
    .where('organization_id', '=', organization_id)
    .where((eb) => eb.or([eb('deleted_at', 'is', null), eb('deleted_at', '>=', since)]))
    .$if(ids !== undefined, (query) => query.where('id', '=', anyOf(ids!)))
    .$if(cursor !== undefined, (query) =>
      query.where(sql<boolean>`(created_at, id) < (select created_at, id from projects where id = ${cursor})`),
    )
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
}

/**
 * Branches of some projects of an organisation, by project and id. Of those that were deleted so long ago that their rows are
 * gone, what was added up tells when they were there.
 */
export async function listConsumingBranches(
  store: Store,
  organization_id: OrganizationId,
  project_ids: readonly ProjectId[],
  { ids, cursor, limit, since }: ConsumerPage,
): Promise<Consumer[]> {
  const { rows } = await sql<Consumer>`
    with asked as (
      select id from projects where organization_id = ${organization_id} and id = ${anyOf(project_ids)}
    ), seen as (
      select branch_id, project_id, hour from usage_hours
      where project_id in (select id from asked) and hour >= ${since}
      union all
      select branch_id, project_id, hour from storage_hours
      where project_id in (select id from asked) and hour >= ${since}
    ), consumers as (
      select id, project_id, created_at, deleted_at from branches
      where project_id in (select id from asked) and ephemeral_of is null and (deleted_at is null or deleted_at >= ${since})
      union all
      select branch_id, project_id, min(hour), max(hour) from seen
      where not exists (select from branches where branches.id = seen.branch_id)
      group by branch_id, project_id
    )
    select * from consumers
    where (${ids === undefined} or id = ${anyOf(ids ?? [])})
      and (${cursor === undefined} or (project_id, id) > (select project_id, id from consumers where id = ${cursor ?? ''}))
    order by project_id, id limit ${limit}`.execute(store);
  return rows;
}

/** Whose consumption is read. */
export type Consumers = { readonly projects: readonly ProjectId[] } | { readonly branches: readonly BranchId[] };

/** What one of them used in a timeframe. */
export interface UsageSum {
  readonly id: string;
  readonly start: Date;
  readonly active_us: number;
  readonly compute_us: number;
  readonly written_bytes: number;
  readonly sent_bytes: number;
  readonly private_bytes: number;
}

const UNITS = { hourly: 'hour', daily: 'day', monthly: 'month' } as const satisfies Record<Granularity, string>;

const idColumn = (consumers: Consumers) => sql.ref('projects' in consumers ? 'project_id' : 'branch_id');
const isOne = (consumers: Consumers) =>
  sql<boolean>`${idColumn(consumers)} = ${anyOf('projects' in consumers ? consumers.projects : consumers.branches)}`;

/** Timeframes without use are left out. The frames follow each other. */
export async function sumUsageByFrame(
  store: Store,
  consumers: Consumers,
  frames: readonly Timeframe[],
  granularity: Granularity,
): Promise<UsageSum[]> {
  const [from, to] = [frames[0]?.start, frames.at(-1)?.end];
  if (!from || !to) return [];
  const { rows } = await sql<UsageSum>`
    select ${idColumn(consumers)} as id, date_trunc(${sql.lit(UNITS[granularity])}, hour, 'UTC') as start,
      sum(active_us)::bigint as active_us, sum(compute_us)::bigint as compute_us,
      sum(written_bytes)::bigint as written_bytes, sum(sent_bytes)::bigint as sent_bytes,
      sum(private_bytes)::bigint as private_bytes
    from usage_hours where ${isOne(consumers)} and hour >= ${from} and hour < ${to}
    group by 1, 2`.execute(store);
  return rows;
}

/** What one of them held of a kind in a timeframe. */
export interface StorageSum {
  readonly id: string;
  readonly start: Date;
  readonly kind: StorageHoursTable['kind'];
  readonly byte_seconds: number;
  /** At the end of the timeframe, or now. */
  readonly bytes_end: number;
}

/**
 * Timeframes in which nothing was held are left out. An hour that nothing changed in has no row: each row goes on until the
 * next of its branch and kind.
 */
export async function sumStorageByFrame(
  store: Store,
  consumers: Consumers,
  frames: readonly Timeframe[],
  now: Date,
): Promise<StorageSum[]> {
  const [from, to] = [frames[0]?.start, frames.at(-1)?.end];
  if (!from || !to) return [];
  // One whose row is gone held something before only if it holds nothing since.
  const holders =
    'projects' in consumers
      ? sql`select id from branches where project_id = ${anyOf(consumers.projects)}
          union select branch_id from storage_hours where ${isOne(consumers)} and hour >= ${from}`
      : sql`select unnest(${consumers.branches}::text[])`;
  const { rows } = await sql<StorageSum>`
    with frames as (
      select * from unnest(${frames.map(({ start }) => start)}::timestamptz[], ${frames.map(({ end }) => end)}::timestamptz[])
        as frames (start_at, end_at)
    ), found as (
      select branch_id, project_id, kind, hour, byte_seconds, bytes_end from storage_hours
      where ${isOne(consumers)} and hour >= ${from} and hour < ${to}
      union all
      select before.* from (${holders}) as holders (id)
      cross join (values ('logical'), ('root'), ('child'), ('history'), ('snapshot')) as kinds (kind)
      cross join lateral (
        select branch_id, project_id, kind, hour, byte_seconds, bytes_end from storage_hours
        where branch_id = holders.id and storage_hours.kind = kinds.kind and hour < ${from}
        order by hour desc limit 1
      ) as before
      where before.bytes_end > 0
    ), spans as (
      select *, lead(hour) over (partition by branch_id, kind order by hour) as next_hour from found
    )
    select ${idColumn(consumers)} as id, start_at as start, kind,
      sum(case when hour >= start_at
          then byte_seconds - bytes_end * greatest(0, extract(epoch from hour + interval '1 hour' - ${now}::timestamptz)) else 0 end
        + bytes_end * greatest(0, extract(epoch from
          least(coalesce(next_hour, end_at), end_at, ${now}::timestamptz) - greatest(hour + interval '1 hour', start_at)))
      )::float8 as byte_seconds,
      sum(case when next_hour is null or next_hour >= end_at then bytes_end else 0 end)::float8 as bytes_end
    from spans join frames on hour < end_at and (next_hour is null or next_hour > start_at)
    group by 1, 2, 3`.execute(store);
  return rows;
}
