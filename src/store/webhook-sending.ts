import { sql } from 'kysely';
import { LIMITS } from '../domain/limits.ts';
import { type RecordedEvent, showEvent } from '../domain/shown-event.ts';
import type { Store, StoreTransaction } from './connection.ts';
import type { WebhookRow } from './event-schema.ts';
import { findEventLog, readEvents } from './events.ts';

/** A delivery that is due, and where it goes. */
export interface DueDelivery {
  readonly id: string;
  readonly webhook_id: string;
  readonly event_id: string;
  readonly body: string;
  readonly created_at: Date;
  readonly attempts: number;
  readonly url: string;
  readonly secret_generation: number;
  readonly former_secret_until: Date | null;
}

/** What came of an attempt. */
export interface DeliveryOutcome {
  readonly status: 'waiting' | 'delivered' | 'failed';
  readonly due_at: Date;
  readonly response_status: number | null;
  readonly error: string | null;
}

/**
 * Writes what is to be sent of the events since the last time, each once whoever does it and however often it is interrupted.
 * Tells whether there are webhooks, and whether there may be more events now.
 */
export function planDeliveries(store: Store): Promise<{ webhooks: boolean; more: boolean; behind: boolean }> {
  return store.transaction().execute(async (trx) => {
    const { rows } = await sql<{ transaction: string; number: number }>`
      select sent_transaction::text as transaction, sent_number as number from event_log for update`.execute(trx);
    const webhooks = await trx.selectFrom('webhooks').selectAll().execute();
    const sent = { transaction: BigInt(rows[0]!.transaction), number: rows[0]!.number };
    if (webhooks.length === 0) return { webhooks: false, more: false, behind: false };
    const page = await readEvents(trx, sent, { limit: LIMITS.events_page_max });
    const { epoch } = await findEventLog(trx);
    for (const webhook of webhooks) {
      await insertDeliveries(
        trx,
        epoch,
        webhook,
        page.events.filter((event) => isFor(webhook, event)),
      );
    }
    const { transaction, number } = page.position;
    await sql`update event_log set sent_transaction = ${transaction.toString()}::xid8, sent_number = ${number}`.execute(
      trx,
    );
    return { webhooks: true, more: page.more, behind: page.behind };
  });
}

/** Nobody's own, of what it is for, and not from before it was made. */
function isFor({ organization_id, project_id, event_types, created_at }: WebhookRow, event: RecordedEvent): boolean {
  if (event.user_id !== null || event.organization_id !== organization_id || event.created_at < created_at)
    return false;
  if (project_id !== null && (event.project_id !== project_id || event.type.startsWith('api_key.'))) return false;
  const noun = `${event.type.split('.', 1)[0]}.*`;
  return event_types.length === 0 || event_types.includes(event.type) || event_types.includes(noun);
}

/** A webhook that so much waits for has not answered for long; what more there is it does not get. */
async function insertDeliveries(
  trx: StoreTransaction,
  epoch: string,
  { id: webhook_id }: WebhookRow,
  events: readonly RecordedEvent[],
): Promise<void> {
  if (events.length === 0) return;
  const { rows } = await sql<{ waiting: number }>`
    select count(*) as waiting from webhook_deliveries where webhook_id = ${webhook_id} and status = 'waiting'`.execute(
    trx,
  );
  const room = Math.max(0, LIMITS.webhook_deliveries_waiting - rows[0]!.waiting);
  const values = events.slice(0, room).map((event) => {
    const shown = showEvent(epoch, event);
    return { webhook_id, event_id: shown.id, event_type: event.type, body: JSON.stringify(shown) };
  });
  if (values.length > 0) await trx.insertInto('webhook_deliveries').values(values).execute();
}

/**
 * Takes what is due of each webhook, so much of one at once that a slow one does not take the place of the others. Whoever took
 * a delivery has a minute to say what came of it; then it is anybody's again.
 * @param busy webhooks that enough is under way to
 */
export async function takeDueDeliveries(
  store: Store,
  { of_each, busy }: { readonly of_each: number; readonly busy: readonly string[] },
): Promise<DueDelivery[]> {
  const { rows } = await sql<DueDelivery>`
    update webhook_deliveries set due_at = clock_timestamp() + interval '1 minute'
    from webhooks cross join lateral (
      select id from webhook_deliveries
      where webhook_id = webhooks.id and status = 'waiting' and due_at <= clock_timestamp()
      order by due_at, created_at limit ${of_each} for update skip locked
    ) due
    where webhook_deliveries.id = due.id and webhooks.id <> all(${busy}::uuid[])
    returning webhook_deliveries.id, webhook_id, event_id, body, webhook_deliveries.created_at, attempts, webhooks.url,
      webhooks.secret_generation, webhooks.former_secret_until`.execute(store);
  return rows;
}

/** When the next delivery is due; undefined when none waits. */
export async function findNextDue(store: Store): Promise<Date | undefined> {
  const { rows } = await sql<{ due_at: Date | null }>`
    select min(due_at) as due_at from webhook_deliveries where status = 'waiting'`.execute(store);
  return rows[0]?.due_at ?? undefined;
}

export async function recordDelivery(store: Store, id: string, outcome: DeliveryOutcome): Promise<void> {
  await store
    .updateTable('webhook_deliveries')
    .set((eb) => ({ ...outcome, attempts: eb('attempts', '+', 1), attempted_at: sql<Date>`clock_timestamp()` }))
    .where('id', '=', id)
    .execute();
}

/** Forgets deliveries from before a time that are done, `most` at once. */
export async function forgetDeliveries(store: Store, before: Date, most: number): Promise<void> {
  await sql`
    delete from webhook_deliveries where id in (
      select id from webhook_deliveries where created_at < ${before} and status <> 'waiting' order by created_at limit ${most}
    )`.execute(store);
}
