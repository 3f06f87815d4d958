import { type RequestOptions, request as requestPlain } from 'node:http';
import { request as requestOverTls } from 'node:https';
import { LIMITS } from '../../domain/limits.ts';
import { guardedLookup, outboundUrlProblem } from '../../domain/outbound-url.ts';
import { signWebhook, webhookSecret } from '../../domain/webhook-secret.ts';
import type { Store } from '../../store/connection.ts';
import {
  type DeliveryOutcome,
  type DueDelivery,
  findNextDue,
  planDeliveries,
  recordDelivery,
  takeDueDeliveries,
} from '../../store/webhook-sending.ts';
import type { Log } from '../../watch/log-fields.ts';

export interface WebhookSenderContext {
  readonly intent: Store;
  readonly webhooks: {
    /** Secrets are reckoned from it. */
    readonly key: Buffer;
    /** Receivers may be on this machine. */
    readonly loopback: boolean;
  };
  readonly logger: Log;
}

const OF_EACH_AT_ONCE = 5;
const FIRST_RETRY_MS = 5_000;
const LAST_RETRY_MS = 4 * 3_600_000;
/** What is due later than this is seen by a look that comes anyway. */
const SOON_MS = 60_000;

/** How long after attempt number `attempts` the next one comes: doubling from five seconds to four hours. */
const retryDelayMs = (attempts: number): number => Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** (attempts - 1));

/**
 * Sends events to webhooks. A round writes down what is to be sent, and begins to send what is due; it does not wait for
 * answers. Tells whether there is something to come back for soon.
 */
export function sendWebhooks(ctx: WebhookSenderContext, stopping: AbortSignal): () => Promise<boolean> {
  /** By delivery the webhook that it goes to. */
  const under_way = new Map<string, string>();
  const deliver = async (delivery: DueDelivery): Promise<void> => {
    const outcome = await attempt(ctx, delivery, stopping);
    // Interrupted by our own end, it is begun again by the next start.
    if (!stopping.aborted) await recordDelivery(ctx.intent, delivery.id, outcome);
  };
  const begin = (delivery: DueDelivery): void => {
    under_way.set(delivery.id, delivery.webhook_id);
    deliver(delivery)
      .catch((error) => ctx.logger.warn({ err: error }, 'what came of a webhook was not recorded'))
      .finally(() => under_way.delete(delivery.id));
  };
  const busy = (): string[] => {
    const by_webhook = Map.groupBy(under_way.values(), (webhook_id) => webhook_id);
    return [...by_webhook].flatMap(([id, deliveries]) => (deliveries.length >= OF_EACH_AT_ONCE ? [id] : []));
  };
  return async () => {
    const planned = await planDeliveries(ctx.intent);
    if (planned.webhooks && under_way.size < LIMITS.webhook_deliveries_at_once) {
      const due = await takeDueDeliveries(ctx.intent, { of_each: OF_EACH_AT_ONCE, busy: busy() });
      for (const delivery of due) begin(delivery);
    }
    if (!planned.webhooks) return false;
    if (planned.more || planned.behind || under_way.size > 0) return true;
    const next = await findNextDue(ctx.intent);
    return next !== undefined && next.getTime() < Date.now() + SOON_MS;
  };
}

async function attempt(
  { webhooks }: WebhookSenderContext,
  { id: _, attempts, created_at, ...delivery }: DueDelivery,
  stopping: AbortSignal,
): Promise<DeliveryOutcome> {
  const now = new Date();
  let response_status: number | null = null;
  let error: string | null = null;
  try {
    response_status = await post(webhooks, delivery, now, stopping);
    if (response_status < 200 || response_status > 299) error = `answered ${response_status}`;
  } catch (problem) {
    error = (problem as Error).message.slice(0, LIMITS.webhook_error_characters) || 'could not be reached';
  }
  if (error === null) return { status: 'delivered', due_at: now, response_status, error };
  // From now on: a receiver that did not answer took longer than the first delays.
  const due_at = new Date(Date.now() + retryDelayMs(attempts + 1));
  const over = due_at.getTime() - created_at.getTime() > LIMITS.webhook_retries_ms;
  return { status: over ? 'failed' : 'waiting', due_at, response_status, error };
}

/** Sends it and returns the status of the answer, of which nothing else is read. Redirects are not followed. */
async function post(
  { key, loopback }: WebhookSenderContext['webhooks'],
  delivery: Pick<DueDelivery, 'webhook_id' | 'event_id' | 'body' | 'url' | 'secret_generation' | 'former_secret_until'>,
  now: Date,
  stopping: AbortSignal,
): Promise<number> {
  const { url, body, event_id } = delivery;
  const problem = outboundUrlProblem(url, loopback);
  if (problem) throw new Error(`the URL ${problem}`);
  const timestamp = Math.floor(now.getTime() / 1000);
  const secretOf = (generation: number) => webhookSecret(key, { id: delivery.webhook_id, generation });
  const former = delivery.former_secret_until && delivery.former_secret_until > now;
  const secrets = [delivery.secret_generation, ...(former ? [delivery.secret_generation - 1] : [])].map(secretOf);
  const options: RequestOptions = {
    method: 'POST',
    lookup: guardedLookup(loopback),
    agent: false,
    signal: AbortSignal.any([stopping, AbortSignal.timeout(LIMITS.webhook_timeout_ms)]),
    headers: {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'user-agent': 'Coppice',
      'webhook-id': event_id,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': signWebhook(secrets, { id: event_id, timestamp, body }),
    },
  };
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const request = (url.startsWith('https:') ? requestOverTls : requestPlain)(url, options);
  request.on('response', ({ statusCode }) => resolve(statusCode ?? 0));
  request.on('error', reject);
  request.end(body);
  try {
    return await promise;
  } finally {
    request.destroy();
  }
}
