import Type, { type Static } from 'typebox';
import { LIMITS } from '../../domain/limits.ts';
import { Timestamp, Uuid } from './fields.ts';

export const Webhook = Type.Object({
  id: Uuid,
  organization_id: Type.String(),
  project_id: Type.Optional(Type.String()),
  url: Type.String(),
  event_types: Type.Array(Type.String()),
  created_at: Timestamp,
  former_secret_until: Type.Optional(Timestamp),
});
export type Webhook = Static<typeof Webhook>;

/** The only answers that hold the secret. */
export const WebhookWithSecret = Type.Object({ webhook: Webhook, secret: Type.String() });

export const WebhookCreate = Type.Object({
  url: Type.String({ maxLength: LIMITS.outbound_url_characters }),
  event_types: Type.Optional(
    Type.Array(Type.String({ pattern: '^[a-z_]{1,40}\\.([a-z_]{1,40}|\\*)$' }), {
      maxItems: LIMITS.webhook_event_types,
      description: '`branch.created`, or `branch.*`; none: all',
    }),
  ),
});

export const WebhookDelivery = Type.Object({
  id: Uuid,
  event_id: Type.String(),
  event_type: Type.String(),
  status: Type.String({ enum: ['waiting', 'delivered', 'failed'] }),
  attempts: Type.Integer(),
  created_at: Timestamp,
  attempted_at: Type.Optional(Timestamp),
  due_at: Type.Optional(Timestamp),
  response_status: Type.Optional(Type.Integer()),
  error: Type.Optional(Type.String()),
});
export type WebhookDelivery = Static<typeof WebhookDelivery>;
