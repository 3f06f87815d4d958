import { createHmac } from 'node:crypto';

/** What the secrets of webhooks are reckoned from is derived from the master key under this name. */
export const WEBHOOK_KEY_PURPOSE = 'secrets of webhooks';

/** The secret of a webhook: nothing of it is kept, and every generation has another one. In the form of Standard Webhooks. */
export function webhookSecret(key: Buffer, { id, generation }: { id: string; generation: number }): string {
  return `whsec_${createHmac('sha256', key).update(`${id} ${generation}`).digest('base64')}`;
}

/** The value of `webhook-signature` by Standard Webhooks: one signature for each secret that is valid. */
export function signWebhook(
  secrets: readonly string[],
  { id, timestamp, body }: { id: string; timestamp: number; body: string },
): string {
  return secrets
    .map((secret) => {
      const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
      return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
    })
    .join(' ');
}
