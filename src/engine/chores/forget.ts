import { LIMITS } from '../../domain/limits.ts';
import { forgetIdempotencyKeys } from '../../store/idempotency-keys.ts';
import type { EngineContext } from '../context.ts';

const AT_ONCE = 10_000;

/** Forgets what is kept for a while only: answers to callers that may repeat themselves. */
export async function forgetOld({ store }: EngineContext, now: Date): Promise<void> {
  await forgetIdempotencyKeys(store, new Date(now.getTime() - LIMITS.idempotency_keys_kept_ms), AT_ONCE);
}
