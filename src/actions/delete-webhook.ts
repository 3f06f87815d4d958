import { CoppiceError } from '../domain/errors.ts';
import type { WebhookRow } from '../store/event-schema.ts';
import { deleteWebhook as removeWebhook, type WebhookOwner } from '../store/webhooks.ts';
import type { ActionContext } from './context.ts';

/** Ends a webhook, with what was yet to be sent to it. */
export async function deleteWebhook(
  { store }: Pick<ActionContext, 'store'>,
  owner: WebhookOwner,
  id: string,
): Promise<WebhookRow> {
  const webhook = await removeWebhook(store, owner, id);
  if (!webhook) throw new CoppiceError('not_found', { noun: 'webhook' });
  return webhook;
}
