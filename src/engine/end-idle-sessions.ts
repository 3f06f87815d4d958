import type { ComputeRef } from '../drivers/compute/contract.ts';
import { endIdleSessions } from '../postgres/activity.ts';
import type { EngineContext } from './context.ts';
import { sessions } from './sessions.ts';

/** A server that does not answer for so long is hung. */
const ANSWER_TIMEOUT_MS = 5_000;

/** Has a compute end those of its sessions that are in no transaction and have nothing to do. */
export async function endIdleSessionsOf(
  ctx: EngineContext,
  compute: ComputeRef,
  process_ids: readonly number[],
): Promise<void> {
  await using session = await sessions(ctx, compute, AbortSignal.timeout(ANSWER_TIMEOUT_MS))('postgres');
  await endIdleSessions(session, process_ids);
}
