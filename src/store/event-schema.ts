import type { ColumnType, Generated, Selectable } from 'kysely';
import type { Big, Json, OptionalTime, Time } from './column-types.ts';

/** The tables of migration 4, as schema.ts has the others. */

export interface IdempotencyKeysTable {
  api_key_id: number;
  key: string;
  request_hash: Buffer;
  status: number | null;
  sealed_answer: Buffer | null;
  created_at: Time;
}

/** Numbers of transactions are texts: they outgrow what a number holds. */
export interface EventsTable {
  transaction: Generated<string>;
  number: Big;
  created_at: Time;
  type: string;
  organization_id: string | null;
  project_id: string | null;
  user_id: string | null;
  subject_id: string;
  data: Json<Readonly<Record<string, unknown>>>;
}

export interface EventLogTable {
  singleton: Generated<boolean>;
  epoch: Generated<string>;
  forgotten_transaction: Generated<string>;
  forgotten_number: Big;
  sent_transaction: Generated<string>;
  sent_number: Big;
}

export interface WebhooksTable {
  id: Generated<string>;
  organization_id: string;
  project_id: string | null;
  url: string;
  event_types: string[];
  secret_generation: Generated<number>;
  former_secret_until: OptionalTime;
  created_by: string | null;
  created_at: Time;
}

export interface WebhookDeliveriesTable {
  id: Generated<string>;
  webhook_id: string;
  event_id: string;
  event_type: string;
  body: string;
  created_at: Time;
  status: ColumnType<DeliveryStatus, DeliveryStatus | undefined, DeliveryStatus>;
  attempts: Generated<number>;
  due_at: Time;
  attempted_at: OptionalTime;
  response_status: number | null;
  error: string | null;
}

export interface EventSchema {
  idempotency_keys: IdempotencyKeysTable;
  events: EventsTable;
  event_log: EventLogTable;
  webhooks: WebhooksTable;
  webhook_deliveries: WebhookDeliveriesTable;
}

export type DeliveryStatus = 'waiting' | 'delivered' | 'failed';
export type WebhookRow = Selectable<WebhooksTable>;
export type WebhookDeliveryRow = Selectable<WebhookDeliveriesTable>;
