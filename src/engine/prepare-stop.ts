import type { ComputeRef } from '../drivers/compute/contract.ts';
import { checkpoint } from '../postgres/activity.ts';
import type { EngineContext } from './context.ts';
import { learnFromServer } from './learn.ts';
import { meterServer } from './meter-server.ts';
import { sessions } from './sessions.ts';

/** After that the stop begins unprepared: a checkpoint may take long, and a server may be hung. */
const PREPARE_TIMEOUT_MS = 60_000;

/**
 * Before a server is stopped: writes out what is dirty, so that the stop is short, and learns what only a running server
 * tells. One that does not answer is stopped all the same.
 */
export async function prepareStop(
  ctx: EngineContext,
  { id, compute }: { readonly id: string; readonly compute: ComputeRef },
  signal: AbortSignal,
): Promise<void> {
  const patience = AbortSignal.any([signal, AbortSignal.timeout(PREPARE_TIMEOUT_MS)]);
  try {
    await using session = await sessions(ctx, compute, patience)('postgres');
    await checkpoint(session);
    await meterServer(ctx, id, session);
    await learnFromServer(ctx, id);
  } catch (error) {
    ctx.logger.warn({ endpoint_id: id, err: error }, 'a stop could not be prepared');
  }
}
