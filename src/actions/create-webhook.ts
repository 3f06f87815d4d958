import { CoppiceError } from '../domain/errors.ts';
import { LIMITS } from '../domain/limits.ts';
import { isLocalDomain, outboundUrlProblem } from '../domain/outbound-url.ts';
import { WEBHOOK_KEY_PURPOSE, webhookSecret } from '../domain/webhook-secret.ts';
import type { WebhookRow } from '../store/event-schema.ts';
import { insertWebhook, listWebhooks, type WebhookOwner } from '../store/webhooks.ts';
import { type Caller, callerUserId } from './caller.ts';
import type { ActionContext } from './context.ts';

/** Fields as in the API. */
export interface WebhookRequest {
  readonly url: string;
  readonly event_types?: readonly string[];
}

/** Has the owner's events sent to a URL from now on. The secret is told now, and can be told again by nobody. */
export function createWebhook(
  context: ActionContext,
  caller: Caller,
  owner: WebhookOwner,
  { url, event_types = [] }: WebhookRequest,
): Promise<{ webhook: WebhookRow; secret: string }> {
  const problem = outboundUrlProblem(url, isLocalDomain(context.installation.domain));
  if (problem) throw new CoppiceError('invalid_request', { field: 'url', problem });
  return context.store.transaction().execute(async (trx) => {
    if ((await listWebhooks(trx, owner)).length >= LIMITS.webhooks_per_owner) {
      throw new CoppiceError('webhooks_limit', { limit: LIMITS.webhooks_per_owner });
    }
    const webhook = await insertWebhook(trx, {
      ...owner,
      url,
      event_types: [...new Set(event_types)],
      created_by: callerUserId(caller),
    });
    return { webhook, secret: secretOf(context, webhook) };
  });
}

/** The secret that a webhook has now. */
export function secretOf({ vault }: ActionContext, { id, secret_generation }: WebhookRow): string {
  return webhookSecret(vault.derive(WEBHOOK_KEY_PURPOSE), { id, generation: secret_generation });
}
