import type { EndpointId } from '../domain/ids.ts';
import type { ConnectionRecord } from './connection-record.ts';
import { refusals } from './refusal.ts';

export type Admission = 'admitted' | 'refused' | 'dropped';

/** Counts a gateway's connections and keeps them within bounds. */
export class Connections {
  readonly #limits: { readonly unauthenticated_connections: number; readonly sessions_per_endpoint: number };
  readonly #unauthenticated = new Set<ConnectionRecord>();
  readonly #endpoints = new Map<ConnectionRecord, EndpointId>();
  readonly #sessions = new Map<EndpointId, number>();
  readonly #open = new Set<Promise<void>>();

  constructor(limits: { readonly unauthenticated_connections: number; readonly sessions_per_endpoint: number }) {
    this.#limits = limits;
  }

  /** Keeps a connection's promise until it settles. */
  track(served: Promise<void>): void {
    this.#open.add(served);
    served.finally(() => this.#open.delete(served));
  }

  /** Beyond the bound a connection is told so; when as many are being told, it is just dropped. */
  admit(record: ConnectionRecord): Admission {
    const bound = this.#limits.unauthenticated_connections;
    const waiting = this.#unauthenticated.size;
    if (waiting >= 2 * bound) return 'dropped';
    this.#unauthenticated.add(record);
    return waiting >= bound ? 'refused' : 'admitted';
  }

  /** Moves a connection from the crowd at the door to its endpoint's sessions. Throws a Refusal when those are too many. */
  authenticated(record: ConnectionRecord, id: EndpointId, sessions_max?: number): void {
    const count = this.sessionCount(id);
    if (sessions_max !== undefined && count >= sessions_max) throw refusals.tooManyClients();
    if (count >= this.#limits.sessions_per_endpoint) throw refusals.tooManySessions();
    this.#unauthenticated.delete(record);
    this.#endpoints.set(record, id);
    this.#sessions.set(id, count + 1);
  }

  ended(record: ConnectionRecord): void {
    this.#unauthenticated.delete(record);
    const id = this.#endpoints.get(record);
    if (id === undefined) return;
    this.#endpoints.delete(record);
    const left = this.sessionCount(id) - 1;
    if (left > 0) this.#sessions.set(id, left);
    else this.#sessions.delete(id);
  }

  sessionCount(id: EndpointId): number {
    return this.#sessions.get(id) ?? 0;
  }

  async allEnded(): Promise<void> {
    while (this.#open.size > 0) await Promise.allSettled(this.#open);
  }
}
