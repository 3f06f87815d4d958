import { CoppiceError } from '../domain/errors.ts';
import type { WebhookRow } from '../store/event-schema.ts';
import { findWebhook, type WebhookOwner } from '../store/webhooks.ts';
import type { ActionContext } from './context.ts';

/** The owner's webhook, or `not_found`. */
export async function findWebhookOf(
  { store }: Pick<ActionContext, 'store'>,
  owner: WebhookOwner,
  id: string,
): Promise<WebhookRow> {
  const webhook = await findWebhook(store, owner, id);
  if (!webhook) throw new CoppiceError('not_found', { noun: 'webhook' });
  return webhook;
}
