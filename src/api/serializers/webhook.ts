import type { WebhookDeliveryRow, WebhookRow } from '../../store/event-schema.ts';
import type { Webhook, WebhookDelivery } from '../schemas/webhook.ts';
import { optionalTimestamp, timestamp } from './timestamp.ts';

/** A webhook as the API shows it, without its secret. */
export function serializeWebhook(row: WebhookRow): Webhook {
  return {
    id: row.id,
    organization_id: row.organization_id,
    project_id: row.project_id ?? undefined,
    url: row.url,
    event_types: row.event_types,
    created_at: timestamp(row.created_at),
    former_secret_until: optionalTimestamp(row.former_secret_until),
  };
}

/** A delivery as the log of a webhook shows it. */
export function serializeWebhookDelivery(row: WebhookDeliveryRow): WebhookDelivery {
  return {
    id: row.id,
    event_id: row.event_id,
    event_type: row.event_type,
    status: row.status,
    attempts: row.attempts,
    created_at: timestamp(row.created_at),
    attempted_at: optionalTimestamp(row.attempted_at),
    due_at: row.status === 'waiting' ? timestamp(row.due_at) : undefined,
    response_status: row.response_status ?? undefined,
    error: row.error ?? undefined,
  };
}
