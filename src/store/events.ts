import { sql } from 'kysely';
import type { EventPosition } from '../domain/event-position.ts';
import { isAfter } from '../domain/event-position.ts';
import type { OrganizationId, ProjectId, UserId } from '../domain/ids.ts';
import type { RecordedEvent } from '../domain/shown-event.ts';
import type { Store } from './connection.ts';

/** Whose events are read: of these organisations, and this user's own. */
export interface EventScope {
  readonly organization_ids: readonly OrganizationId[];
  readonly user_id?: UserId;
  readonly project_id?: ProjectId;
}

export interface EventPage {
  readonly events: readonly RecordedEvent[];
  /** Everything up to here was read, whoever may see it. */
  readonly position: EventPosition;
  /** There may be more that can be read now. */
  readonly more: boolean;
  /** There is more that cannot be read yet: an older transaction is still under way, which may have something to say. */
  readonly behind: boolean;
}

interface FoundRow {
  readonly horizon: string;
  readonly transaction: string | null;
  readonly number: number;
}

/**
 * Events behind a position, oldest first, and only those of transactions older than every one that still runs: later ones
 * could be overtaken, and whoever goes on from there would miss what came late.
 */
export async function readEvents(
  store: Store,
  after: EventPosition,
  { limit, scope }: { readonly limit: number; readonly scope?: EventScope },
): Promise<EventPage> {
  const mine = scope
    ? sql`and (organization_id = any(${scope.organization_ids}::text[]) or user_id = ${scope.user_id ?? null}::uuid)
        and (${scope.project_id ?? null}::text is null or project_id = ${scope.project_id ?? null}::text)`
    : sql``;
  const { rows } = await sql<FoundRow & Omit<RecordedEvent, keyof EventPosition>>`
    select horizon.xmin::text as horizon, found.*
    from (select pg_snapshot_xmin(pg_current_snapshot()) as xmin) horizon left join lateral (
      select transaction::text, number, created_at, type, organization_id, project_id, user_id, subject_id, data
      from events
      where (transaction, number) > (${after.transaction.toString()}::xid8, ${after.number}::bigint) ${mine}
      order by events.transaction, number limit ${limit}
    ) found on true
    order by found.transaction::xid8, found.number`.execute(store);
  const horizon: EventPosition = { transaction: BigInt(rows[0]!.horizon), number: 0 };
  const found = rows.flatMap(({ horizon: _, transaction, ...row }) =>
    transaction === null ? [] : [{ ...row, transaction: BigInt(transaction) }],
  );
  const events = found.filter((row) => row.transaction < horizon.transaction);
  const more = events.length === limit;
  const reached = more ? events.at(-1)! : horizon;
  return { events, position: isAfter(reached, after) ? reached : after, more, behind: events.length < found.length };
}

/** The name of the log, where it ends for whoever begins to follow it now, and the last of what is not kept any more. */
export async function findEventLog(
  store: Store,
): Promise<{ readonly epoch: string; readonly end: EventPosition; readonly forgotten: EventPosition }> {
  const { rows } = await sql<{ epoch: string; horizon: string; transaction: string; number: number }>`
    select epoch, pg_snapshot_xmin(pg_current_snapshot())::text as horizon, forgotten_transaction::text as transaction,
      forgotten_number as number
    from event_log`.execute(store);
  const { epoch, horizon, transaction, number } = rows[0]!;
  return {
    epoch,
    end: { transaction: BigInt(horizon), number: 0 },
    forgotten: { transaction: BigInt(transaction), number },
  };
}

/**
 * Forgets events from before a time, the oldest first and `most` at once, and notes how far that went. A log with numbers
 * that this database has not given yet was moved here: it is begun anew.
 */
export async function forgetEvents(store: Store, before: Date, most: number): Promise<void> {
  await sql`
    with old_events as materialized (
      select transaction, number from events where created_at < ${before} order by transaction, number limit ${most}
    ), gone as (
      delete from events using old_events
      where events.transaction = old_events.transaction and events.number = old_events.number
    )
    update event_log set forgotten_transaction = last.transaction, forgotten_number = last.number
    from (select transaction, number from old_events order by transaction desc, number desc limit 1) last`.execute(
    store,
  );
  await sql`
    with moved as materialized (
      select from events where transaction >= pg_snapshot_xmax(pg_current_snapshot()) limit 1
    ), gone as (
      delete from events where exists (select from moved)
    )
    update event_log set epoch = left(gen_random_uuid()::text, 8), forgotten_transaction = '0', forgotten_number = 0
    where exists (select from moved)`.execute(store);
}
