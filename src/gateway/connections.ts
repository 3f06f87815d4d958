import type { EndpointId } from '../domain/ids.ts';
import type { ConnectionRecord } from './connection-record.ts';
import { Measures, type MeasuresOptions } from './measures.ts';
import { refusals } from './refusal.ts';
import { Transfers } from './transfers.ts';

export type Admission = 'admitted' | 'refused' | 'dropped';

/** What a session counts against. */
export interface SessionKind {
  readonly pooled: boolean;
  /** Bound of the endpoint's server, if it has one of ours. */
  readonly sessions_max?: number;
  /** Server connections that pools have. */
  readonly pool_servers: number;
}

const SHARES_SERVERS: SessionKind = { pooled: true, pool_servers: 0 };

interface ConnectionLimits extends MeasuresOptions {
  readonly unauthenticated_connections: number;
  readonly sessions_per_endpoint: number;
}

/** Counts a gateway's connections and keeps them within bounds. */
export class Connections {
  readonly measures: Measures;
  readonly transfers: Transfers;
  readonly #limits: ConnectionLimits;
  readonly #unauthenticated = new Set<ConnectionRecord>();
  readonly #endpoints = new Map<ConnectionRecord, EndpointId>();
  readonly #sessions = new Map<EndpointId, number>();
  /** Those among them that take a connection of the server each. */
  readonly #direct = new Map<EndpointId, number>();
  readonly #directRecords = new Set<ConnectionRecord>();
  readonly #open = new Set<Promise<void>>();

  /** @param onTransfers there may be transfers to take, where there were none */
  constructor(limits: ConnectionLimits, onTransfers: () => void = () => undefined) {
    this.#limits = limits;
    this.transfers = new Transfers(onTransfers);
    this.measures = new Measures(limits);
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
    if (waiting >= 2 * bound) {
      this.measures.dropped();
      return 'dropped';
    }
    this.#unauthenticated.add(record);
    return waiting >= bound ? 'refused' : 'admitted';
  }

  /** Moves a connection from the crowd at the door to its endpoint's sessions. Throws a Refusal when those are too many. */
  authenticated(
    record: ConnectionRecord,
    id: EndpointId,
    { pooled, sessions_max, pool_servers }: SessionKind = SHARES_SERVERS,
  ): void {
    const count = this.sessionCount(id);
    const full = sessions_max !== undefined && this.directCount(id) + pool_servers >= sessions_max;
    if (full && !pooled) throw refusals.tooManyClients();
    if (count >= this.#limits.sessions_per_endpoint) throw refusals.tooManySessions();
    this.#unauthenticated.delete(record);
    this.#endpoints.set(record, id);
    this.#sessions.set(id, count + 1);
    if (!pooled) {
      this.#directRecords.add(record);
      this.#direct.set(id, this.directCount(id) + 1);
    }
    this.measures.entered(record, id);
    this.transfers.entered(record, id);
  }

  /** Its record is complete, but for what is added here: why it ended. */
  ended(record: ConnectionRecord): void {
    record.reason = record.error_kind ?? record.reason ?? (record.connected ? 'client' : undefined);
    this.measures.ended(record);
    this.transfers.ended(record);
    this.#unauthenticated.delete(record);
    const id = this.#endpoints.get(record);
    if (id === undefined) return;
    this.#endpoints.delete(record);
    countDown(this.#sessions, id);
    if (this.#directRecords.delete(record)) countDown(this.#direct, id);
  }

  sessionCount(id: EndpointId): number {
    return this.#sessions.get(id) ?? 0;
  }

  /** Sessions of direct hosts. */
  directCount(id: EndpointId): number {
    return this.#direct.get(id) ?? 0;
  }

  /** Connections that have been let in; `direct` ones have, or wait for, a session of the server to themselves. */
  *open(): Iterable<{ readonly record: ConnectionRecord; readonly id: EndpointId; readonly direct: boolean }> {
    for (const [record, id] of this.#endpoints) yield { record, id, direct: this.#directRecords.has(record) };
  }

  async allEnded(): Promise<void> {
    while (this.#open.size > 0) await Promise.allSettled(this.#open);
  }
}

function countDown(counts: Map<EndpointId, number>, id: EndpointId): void {
  const left = (counts.get(id) ?? 0) - 1;
  if (left > 0) counts.set(id, left);
  else counts.delete(id);
}
