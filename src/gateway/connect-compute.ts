import type { Duplex } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import type { EndpointId } from '../domain/ids.ts';
import { LIMITS } from '../domain/limits.ts';
import type { ScramKeys } from '../wire/scram.ts';
import { type ComputeSession, logInToCompute } from './compute-login.ts';
import { type EndpointEntry, WakeError, type Waker } from './contract.ts';
import { ComputeRefusal, Refusal, refusals } from './refusal.ts';
import { nextMove, pauseMs } from './retry.ts';
import type { BranchRoute } from './route.ts';

/** Where the time went, in milliseconds; added to as the connection goes on. */
export interface ConnectTimes {
  /** From the request of a start until the compute is said to run; for the past, until there is a copy. */
  wake_ms: number;
  /** Attempts that found no server that lets anybody in, and the pauses between them. */
  start_ms: number;
  /** The attempt that succeeded. */
  connect_ms: number;
}

/** What it takes to reach a compute that may sleep. */
export type Reach = Pick<Waker, 'dial' | 'wake'>;

export interface ComputeLogin {
  readonly entry: EndpointEntry;
  /** Of the start-up packet to the compute. */
  readonly parameters: ReadonlyMap<string, string>;
  readonly keys: ScramKeys;
  readonly times: ConnectTimes;
}

/**
 * A logged-in connection to the endpoint's compute, which is woken when it sleeps and waited for when it stops. Nothing
 * has been said to the client meanwhile. Throws a Refusal, a WakeError, a ComputeRefusal with the server's own error, or
 * the reason of `signal` when that aborts first.
 */
export async function connectCompute(
  { entry, parameters, keys, times }: ComputeLogin,
  waker: Reach,
  signal: AbortSignal,
): Promise<ComputeSession> {
  const id = entry.endpoint_id;
  let failure: unknown;
  let awake = entry.state !== 'stopping';
  for (let attempt = 0; attempt < LIMITS.connect_attempts; attempt++) {
    if (pauseMs(attempt) > 0) await timed(times, 'start_ms', () => untilAborted(pause(pauseMs(attempt)), signal));
    if (!awake) await timed(times, 'wake_ms', () => wake(id, waker, signal));
    const begun = performance.now();
    try {
      const stream = await dial(id, waker, signal);
      const session = stream && (await logInToCompute(stream, parameters, keys, signal));
      if (session) {
        times.connect_ms += performance.now() - begun;
        return session;
      }
      times.start_ms += performance.now() - begun;
      awake = false;
    } catch (error) {
      times.start_ms += performance.now() - begun;
      signal.throwIfAborted();
      const move = nextMove(error);
      if (move === 'fail') throw isForClient(error) ? error : refusals.computeUnreachable(error);
      awake = move === 'retry';
      failure = error;
    }
  }
  throw failure instanceof ComputeRefusal ? failure : refusals.computeUnreachable(failure);
}

/** Where a branch at a point is. Time runs as for a wake. Throws like `connectCompute`. */
export async function travel(
  { branch_id, point, user, times }: BranchRoute & { readonly user: string; readonly times: ConnectTimes },
  waker: Waker,
  signal: AbortSignal,
): Promise<EndpointEntry> {
  const go = () => untilAborted(waker.travel(branch_id, point, user, signal), signal);
  const endpoint_id = await timed(times, 'wake_ms', go);
  return { endpoint_id, disabled: false, state: 'running', past: true };
}

const isForClient = (error: unknown): boolean =>
  error instanceof ComputeRefusal || error instanceof Refusal || error instanceof WakeError;

async function timed<T>(times: ConnectTimes, part: keyof ConnectTimes, work: () => Promise<T>): Promise<T> {
  const started = performance.now();
  try {
    return await work();
  } finally {
    times[part] += performance.now() - started;
  }
}

function wake(id: EndpointId, waker: Reach, signal: AbortSignal): Promise<void> {
  return untilAborted(waker.wake(id, signal), signal);
}

function dial(id: EndpointId, waker: Reach, signal: AbortSignal): Promise<Duplex | undefined> {
  return untilAborted(waker.dial(id), signal, (stream) => stream?.destroy());
}

/** The promise's outcome, or the reason of the signal if that comes first; then `discard` gets what still arrives. */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal, discard?: (late: T) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      reject(signal.reason);
      promise.then(discard, () => undefined);
    };
    if (signal.aborted) return onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
