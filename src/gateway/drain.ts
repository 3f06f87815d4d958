import { setTimeout as delay } from 'node:timers/promises';
import type { EndpointId } from '../domain/ids.ts';
import type { Waker } from './contract.ts';

/** Direct sessions, by the process of the server that each has to itself. */
export class DirectSessions {
  readonly #processes = new Map<EndpointId, Set<number>>();

  /** Returns what to call at its end. */
  add(id: EndpointId, process_id: number): () => void {
    const processes = this.#processes.get(id) ?? new Set();
    this.#processes.set(id, processes);
    processes.add(process_id);
    return () => {
      processes.delete(process_id);
      if (processes.size === 0 && this.#processes.get(id) === processes) this.#processes.delete(id);
    };
  }

  /** Has the servers end those that are in no transaction. What passes through the gateway does not tell which are. */
  async endIdle({ endIdle }: Pick<Waker, 'endIdle'>): Promise<void> {
    const asked = Array.from(this.#processes, ([id, processes]) => endIdle(id, [...processes]));
    // One that does not answer is ended with the others when the time is over.
    await Promise.allSettled(asked);
  }
}

/** Waits until every connection has ended, ending direct ones as they become idle; at most so long. */
export async function drain(
  sessions: DirectSessions,
  waker: Pick<Waker, 'endIdle'>,
  ended: Promise<void>,
  limits: { readonly drain_timeout_ms: number; readonly drain_interval_ms: number },
): Promise<void> {
  const over = new AbortController();
  const late = delay(limits.drain_timeout_ms, undefined, { signal: over.signal }).catch(() => undefined);
  const done = Promise.race([ended, late]).finally(() => over.abort());
  while (!over.signal.aborted) {
    await Promise.race([sessions.endIdle(waker), done]);
    await Promise.race([
      delay(limits.drain_interval_ms, undefined, { signal: over.signal }).catch(() => undefined),
      done,
    ]);
  }
}
