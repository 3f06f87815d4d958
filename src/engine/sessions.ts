import type { Duplex } from 'node:stream';
import type { ComputeRef } from '../drivers/compute/contract.ts';
import { type OpenSession, openSession } from '../postgres/session.ts';
import type { EngineContext } from './context.ts';

/**
 * Opens platform sessions to a compute. They break with the signal: a server that is frozen takes connections and
 * statements and answers none.
 */
export function sessions(ctx: EngineContext, ref: ComputeRef, signal: AbortSignal): OpenSession {
  return (database) => openSession(() => sessionStream(ctx, ref, signal), { database });
}

/** A stream to a compute that breaks with the signal. */
export async function sessionStream(ctx: EngineContext, ref: ComputeRef, signal: AbortSignal): Promise<Duplex> {
  signal.throwIfAborted();
  const stream = await ctx.compute.dial(ref);
  const end = () => stream.destroy(signal.reason);
  signal.addEventListener('abort', end, { once: true });
  stream.once('close', () => signal.removeEventListener('abort', end));
  if (signal.aborted) end();
  return stream;
}
