import { type Insertable, sql } from 'kysely';
import type { OrganizationId, ProjectId } from '../domain/ids.ts';
import { LIMITS } from '../domain/limits.ts';
import type { Store, StoreTransaction } from './connection.ts';
import type { WebhookDeliveryRow, WebhookRow, WebhooksTable } from './event-schema.ts';

/** Whose a webhook is: an organisation's, or one project's of it. */
export interface WebhookOwner {
  readonly organization_id: OrganizationId;
  readonly project_id: ProjectId | null;
}

const ownedBy = ({ organization_id, project_id }: WebhookOwner) =>
  sql<boolean>`organization_id = ${organization_id} and project_id is not distinct from ${project_id}::text`;

/** The owner's webhooks, oldest first. */
export function listWebhooks(store: Store, owner: WebhookOwner): Promise<WebhookRow[]> {
  return store.selectFrom('webhooks').selectAll().where(ownedBy(owner)).orderBy('created_at').orderBy('id').execute();
}

export function findWebhook(store: Store, owner: WebhookOwner, id: string): Promise<WebhookRow | undefined> {
  return store.selectFrom('webhooks').selectAll().where(ownedBy(owner)).where('id', '=', id).executeTakeFirst();
}

/** Writes a webhook. With the first one sending begins: what changed before is passed over. */
export async function insertWebhook(trx: StoreTransaction, webhook: Insertable<WebhooksTable>): Promise<WebhookRow> {
  await sql`update event_log set sent_transaction = pg_snapshot_xmin(pg_current_snapshot()), sent_number = 0
    where not exists (select from webhooks)`.execute(trx);
  return trx.insertInto('webhooks').values(webhook).returningAll().executeTakeFirstOrThrow();
}

/** Removes a webhook with its deliveries; undefined when there is none. */
export function deleteWebhook(store: Store, owner: WebhookOwner, id: string): Promise<WebhookRow | undefined> {
  return store.deleteFrom('webhooks').where(ownedBy(owner)).where('id', '=', id).returningAll().executeTakeFirst();
}

/** Removes those of a project alone, whosever it was when they were made. */
export async function deleteWebhooksOfProject(trx: StoreTransaction, id: ProjectId): Promise<void> {
  await trx.deleteFrom('webhooks').where('project_id', '=', id).execute();
}

/** Gives a webhook a new secret; the former is good for a while. */
export function renewWebhookSecret(store: Store, owner: WebhookOwner, id: string): Promise<WebhookRow | undefined> {
  return store
    .updateTable('webhooks')
    .set((eb) => ({
      secret_generation: eb('secret_generation', '+', 1),
      former_secret_until: sql<Date>`now() + ${LIMITS.webhook_former_secret_ms}::bigint * interval '1 millisecond'`,
    }))
    .where(ownedBy(owner))
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst();
}

/** What was sent or is to be, newest first. */
export function listDeliveries(
  store: Store,
  webhook_id: string,
  { before, limit }: { before?: string; limit: number },
): Promise<WebhookDeliveryRow[]> {
  return store
    .selectFrom('webhook_deliveries')
    .selectAll()
    .where('webhook_id', '=', webhook_id)
    .$if(before !== undefined, (query) =>
      query.where(
        sql<boolean>`(created_at, id) < (select created_at, id from webhook_deliveries where id = ${before}::uuid)`,
      ),
    )
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
}

/** Sends the same once more, as a delivery of its own; undefined when there is no such delivery. */
export async function repeatDelivery(
  store: Store,
  webhook_id: string,
  id: string,
): Promise<WebhookDeliveryRow | undefined> {
  const { rows } = await sql<WebhookDeliveryRow>`
    insert into webhook_deliveries (webhook_id, event_id, event_type, body)
    select webhook_id, event_id, event_type, body from webhook_deliveries
    where webhook_id = ${webhook_id} and id = ${id}::uuid
    returning *`.execute(store);
  return rows[0];
}
