import { CoppiceError } from '../domain/errors.ts';
import type { WebhookDeliveryRow } from '../store/event-schema.ts';
import { repeatDelivery, type WebhookOwner } from '../store/webhooks.ts';
import type { ActionContext } from './context.ts';
import { findWebhookOf } from './find-webhook.ts';

/** Sends once more what was sent, or could not be: the same event, as a delivery of its own. */
export async function redeliver(
  context: ActionContext,
  owner: WebhookOwner,
  { webhook_id, delivery_id }: { readonly webhook_id: string; readonly delivery_id: string },
): Promise<WebhookDeliveryRow> {
  const { id } = await findWebhookOf(context, owner, webhook_id);
  const delivery = await repeatDelivery(context.store, id, delivery_id);
  if (!delivery) throw new CoppiceError('not_found', { noun: 'delivery' });
  return delivery;
}
