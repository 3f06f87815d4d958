import { CoppiceError } from '../domain/errors.ts';
import type { WebhookRow } from '../store/event-schema.ts';
import { renewWebhookSecret, type WebhookOwner } from '../store/webhooks.ts';
import type { ActionContext } from './context.ts';
import { secretOf } from './create-webhook.ts';

/** Gives a webhook a new secret, and tells it. For a day what is sent is signed with the former one, too. */
export async function rotateWebhookSecret(
  context: ActionContext,
  owner: WebhookOwner,
  id: string,
): Promise<{ webhook: WebhookRow; secret: string }> {
  const webhook = await renewWebhookSecret(context.store, owner, id);
  if (!webhook) throw new CoppiceError('not_found', { noun: 'webhook' });
  return { webhook, secret: secretOf(context, webhook) };
}
