import { hash } from 'node:crypto';
import type { PoolView } from '../../domain/endpoint-connections.ts';
import type { EndpointId } from '../../domain/ids.ts';
import type { ScramKeys } from '../../wire/scram.ts';
import type { ServerLease, ServerPools, ServerWish } from './contract.ts';
import { EndpointPools, type PoolsContext } from './endpoint-pools.ts';
import { borrow } from './lease.ts';
import type { Pool } from './pool.ts';
import { splitParameters } from './tracked-parameters.ts';

/** The pools of a gateway, one set for each endpoint that has any. */
export class Pools implements ServerPools {
  readonly #context: PoolsContext;
  readonly #endpoints = new Map<EndpointId, EndpointPools>();

  constructor(context: PoolsContext) {
    this.#context = context;
  }

  /**
   * The pool for a wish. Connections that were opened with other keys are in another pool, so that a changed password
   * never meets them.
   */
  find(wish: Omit<ServerWish, 'times' | 'onLongWait'>): Pool {
    const { endpoint_id } = wish.entry;
    const known = this.#endpoints.get(endpoint_id);
    const endpoint = known ?? new EndpointPools(wish.entry, this.#context, () => this.#endpoints.delete(endpoint_id));
    if (!known) this.#endpoints.set(endpoint_id, endpoint);
    return endpoint.pool(poolKey(wish), wish);
  }

  async acquire(wish: ServerWish, signal: AbortSignal): Promise<ServerLease> {
    signal.throwIfAborted();
    const { tracked, fixed } = splitParameters(wish.parameters);
    const pool = this.find({ ...wish, parameters: fixed });
    const started = performance.now();
    try {
      return await borrow(pool, { tracked, wish, waker: this.#context.waker, signal });
    } finally {
      wish.times.connect_ms += performance.now() - started;
    }
  }

  /** What every pool has at this moment, or every pool of one endpoint. */
  *views(only?: EndpointId): Iterable<readonly [EndpointId, PoolView]> {
    for (const [id, endpoint] of this.#endpoints) {
      if (only !== undefined && id !== only) continue;
      for (const view of endpoint.views()) yield [id, view];
    }
  }

  /** Server connections of an endpoint, those included that are being opened. */
  serverCount(id: EndpointId): number {
    return this.#endpoints.get(id)?.server_count ?? 0;
  }

  /** Closes every server connection; who waits for one is told the reason. */
  close(reason: unknown): void {
    for (const endpoint of this.#endpoints.values()) endpoint.close(reason);
  }
}

function poolKey({ user, database, keys, parameters }: Pick<ServerWish, 'user' | 'database' | 'keys' | 'parameters'>) {
  return JSON.stringify([user, database, fingerprint(keys), [...parameters].sort()]);
}

const fingerprints = new WeakMap<ScramKeys, string>();

/** Tells keys apart without keeping them. */
function fingerprint(keys: ScramKeys): string {
  const known = fingerprints.get(keys);
  if (known !== undefined) return known;
  const made = hash('sha256', Buffer.concat([keys.clientKey, keys.serverKey]), 'base64');
  fingerprints.set(keys, made);
  return made;
}
