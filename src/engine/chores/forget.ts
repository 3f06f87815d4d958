import { LIMITS } from '../../domain/limits.ts';
import { forgetEvents } from '../../store/events.ts';
import { forgetIdempotencyKeys } from '../../store/idempotency-keys.ts';
import { forgetExpiredLogins } from '../../store/sessions.ts';
import { forgetPurgedSnapshots } from '../../store/timeline-snapshots.ts';
import { forgetDeliveries } from '../../store/webhook-sending.ts';
import type { EngineContext } from '../context.ts';

const AT_ONCE = 10_000;

/**
 * Forgets what is kept for a while only: events, what was sent of them, answers to callers that may repeat themselves, sessions, and
 * snapshots that are gone.
 */
export async function forgetOld({ store }: EngineContext, now: Date): Promise<void> {
  const before = (kept_ms: number) => new Date(now.getTime() - kept_ms);
  await forgetEvents(store, before(LIMITS.events_kept_ms), AT_ONCE);
  await forgetDeliveries(store, before(LIMITS.events_kept_ms), AT_ONCE);
  await forgetExpiredLogins(store, now, AT_ONCE);
  await forgetIdempotencyKeys(store, before(LIMITS.idempotency_keys_kept_ms), AT_ONCE);
  await forgetPurgedSnapshots(store, before(LIMITS.purged_snapshots_kept_ms), AT_ONCE);
}
