import { sql } from 'kysely';
import type { EndpointId } from '../domain/ids.ts';
import type { Lsn } from '../domain/lsn.ts';
import type { Store } from './connection.ts';

/** What is used is added up by functions of migration 6, each a transaction of its own: what is told twice is added once. */

/** Endpoints whose compute runs. */
export async function findComputeRuns(store: Store): Promise<EndpointId[]> {
  const rows = await store.selectFrom('compute_runs').select('endpoint_id').orderBy('endpoint_id').execute();
  return rows.map(({ endpoint_id }) => endpoint_id);
}

/**
 * Adds the time that an endpoint's compute has run since it was last added.
 *
 * @param most_ms a longer time is not known to have been run through, and is left out
 */
export async function meterRun(store: Store, id: EndpointId, most_ms: number): Promise<void> {
  await sql`select meter_run(${id}, ${most_ms}::float8 * interval '1 ms')`.execute(store);
}

/** Adds what an endpoint's server has written up to this point of its log since it was last added. */
export async function meterWritten(store: Store, id: EndpointId, lsn: Lsn): Promise<void> {
  await sql`select meter_written(${id}, ${lsn}::pg_lsn)`.execute(store);
}

/** What a gateway passed on between clients and an endpoint. */
export interface EndpointTransfer {
  readonly endpoint_id: EndpointId;
  /** From clients. */
  readonly received_bytes: number;
  /** To clients; */
  readonly sent_bytes: number;
  /** of these, to such as are in private networks. */
  readonly private_bytes: number;
}

/**
 * Adds what a process of a gateway passed on.
 *
 * @param source of the process, for as long as it lives
 * @param batch grows with each; one that was told before is not added again
 */
export async function meterTransfers(
  store: Store,
  source: string,
  batch: number,
  transfers: readonly EndpointTransfer[],
): Promise<void> {
  await sql`select meter_transfers(${source}::uuid, ${batch}::bigint, ${JSON.stringify(transfers)}::jsonb)`.execute(
    store,
  );
}

/** Forgets hours from before that time, so many of each kind at most. Returns how many went of the larger. */
export async function forgetUsage(store: Store, before: Date, most: number): Promise<number> {
  const { rows } = await sql<{ forgotten: number }>`
    select forget_usage(date_trunc('hour', ${before}::timestamptz, 'UTC'), ${most}::integer) as forgotten`.execute(
    store,
  );
  return rows[0]!.forgotten;
}

/** How many bytes a timeline's archive has, where that changed. */
export async function observeArchiveBytes(store: Store, timeline_id: string, bytes: number): Promise<void> {
  await store
    .updateTable('timelines')
    .set({ archive_bytes: bytes })
    .where('id', '=', timeline_id)
    .where('archive_bytes', 'is distinct from', bytes)
    .execute();
}

/** What the whole installation has used in the month of `period_start`. */
export interface InstallationUsage {
  readonly active_us: number;
  readonly compute_us: number;
  readonly written_bytes: number;
  readonly received_bytes: number;
  readonly sent_bytes: number;
}

export async function sumUsage(store: Store, period_start: Date): Promise<InstallationUsage> {
  const { rows } = await sql<InstallationUsage>`
    select coalesce(sum(active_us), 0)::float8 as active_us, coalesce(sum(compute_us), 0)::float8 as compute_us,
      coalesce(sum(written_bytes), 0)::float8 as written_bytes, coalesce(sum(received_bytes), 0)::float8 as received_bytes,
      coalesce(sum(sent_bytes), 0)::float8 as sent_bytes
    from project_usage where period_start = ${period_start}`.execute(store);
  return rows[0]!;
}
