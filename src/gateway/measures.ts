import type { EndpointId } from '../domain/ids.ts';
import { Distribution } from '../watch/distribution.ts';
import type { ConnectTimes } from './connect-compute.ts';
import type { ConnectionRecord, EndReason } from './connection-record.ts';
import { refusals } from './refusal.ts';

/** Parts of the time that a wake takes its client. */
export type WakePart = 'authentication' | 'operation' | 'start' | 'connect';

export type RequestOutcome = 'answered' | 'failed' | 'refused' | 'left';

/** What has happened at an endpoint since it was last without clients for long. Connections that are open are not in it. */
export class EndpointTotals {
  received_bytes = 0;
  sent_bytes = 0;
  readonly ended = new Map<EndReason, number>();
  /** By reason and SQLSTATE. */
  readonly refused = new Map<string, number>();
  readonly requests = new Map<RequestOutcome, number>();
  waits: Distribution | undefined;
  readonly wakes = new Map<WakePart, Distribution>();
  /** Clients that are connected now. */
  clients = 0;
  left_at_ms = performance.now();
}

export interface MeasuresOptions {
  /** Endpoints that are measured each for itself; the rest is measured together. */
  readonly measured_endpoints: number;
  /** An endpoint without clients for so long is forgotten. */
  readonly measured_idle_ms: number;
}

/** SQLSTATEs that are told apart: those of the gateway itself. A server can be made to give any. */
const CODES: ReadonlySet<string> = new Set([
  ...['08004', '08006', '08P01', '0A000', '22023', '28000', '28P01', '53100', '53200', '53300', '53400'],
  ...['54000', '55000', '57014', '57P01', '57P03', 'XX000'],
]);
const PRUNE_INTERVAL_MS = 1_000;

/**
 * Adds up what happens, endpoint by endpoint. Nothing here is called for a message: a connection is counted when it ends,
 * and what it has at a moment is read from it at that moment.
 */
export class Measures {
  readonly #options: MeasuresOptions;
  readonly #endpoints = new Map<EndpointId, EndpointTotals>();
  readonly #open = new Map<ConnectionRecord, EndpointTotals>();
  readonly #other = new EndpointTotals();
  #pruned_at_ms = 0;

  constructor(options: MeasuresOptions) {
    this.#options = options;
  }

  /** Those that are measured each for itself, and last the rest. */
  *endpoints(): Iterable<readonly [EndpointId | 'other', EndpointTotals]> {
    this.#prune();
    yield* this.#endpoints;
    yield ['other', this.#other];
  }

  /** Where an endpoint is measured, without making a place for it. */
  find(id: EndpointId | undefined): EndpointTotals {
    return (id !== undefined && this.#endpoints.get(id)) || this.#other;
  }

  /** Where a connection that is open is measured, whatever becomes of its endpoint meanwhile. */
  totalsOf(record: ConnectionRecord): EndpointTotals {
    return this.#open.get(record) ?? this.#other;
  }

  /** A client has proved who it is; before, an endpoint's name is only what somebody says. */
  entered(record: ConnectionRecord, id: EndpointId): void {
    const totals = this.#endpoints.get(id) ?? this.#add(id);
    totals.clients++;
    this.#open.set(record, totals);
  }

  /** A connection has ended, and its record is complete. */
  ended(record: ConnectionRecord): void {
    const known = this.#open.get(record);
    const totals = known ?? this.find(record.endpoint_id);
    if (known) {
      this.#open.delete(record);
      known.clients--;
      known.left_at_ms = performance.now();
    }
    totals.received_bytes += record.bytes_in;
    totals.sent_bytes += record.bytes_out;
    const { error_kind, connected } = record;
    if (record.protocol === 'http') count(totals.requests, outcomeOf(record));
    else if (connected || (known && error_kind === 'clientdisconnect')) count(totals.ended, record.reason!);
    if (!connected && error_kind && error_kind !== 'clientdisconnect') {
      const code = record.error_code ?? '';
      count(totals.refused, `${error_kind} ${CODES.has(code) ? code : 'other'}`);
    }
  }

  /** A connection was closed without a word, since too many wait at the door. */
  dropped(): void {
    const { kind, code } = refusals.tooManyUnauthenticated();
    count(this.#other.refused, `${kind} ${code}`);
  }

  /** Somebody waited for a server connection of a pool. */
  waited(id: EndpointId, duration_ms: number): void {
    const totals = this.find(id);
    totals.waits ??= new Distribution();
    totals.waits.observe(duration_ms);
  }

  /** A connection to a compute was opened; nothing to be measured where that did not have to be woken. */
  connected(id: EndpointId | undefined, times: ConnectTimes & { readonly authentication_ms?: number }): void {
    if (times.wake_ms === 0) return;
    const { wakes } = this.find(id);
    const observe = (part: WakePart, duration_ms: number | undefined) => {
      if (duration_ms === undefined) return;
      const distribution = wakes.get(part) ?? new Distribution();
      wakes.set(part, distribution);
      distribution.observe(duration_ms);
    };
    observe('authentication', times.authentication_ms);
    observe('operation', times.wake_ms);
    observe('start', times.start_ms);
    observe('connect', times.connect_ms);
  }

  #add(id: EndpointId): EndpointTotals {
    if (this.#endpoints.size >= this.#options.measured_endpoints) this.#prune();
    if (this.#endpoints.size >= this.#options.measured_endpoints) return this.#other;
    const totals = new EndpointTotals();
    this.#endpoints.set(id, totals);
    return totals;
  }

  #prune(): void {
    const now = performance.now();
    if (now - this.#pruned_at_ms < Math.min(PRUNE_INTERVAL_MS, this.#options.measured_idle_ms)) return;
    this.#pruned_at_ms = now;
    for (const [id, { clients, left_at_ms }] of this.#endpoints) {
      if (clients === 0 && now - left_at_ms >= this.#options.measured_idle_ms) this.#endpoints.delete(id);
    }
  }
}

function outcomeOf({ connected, error_kind }: ConnectionRecord): RequestOutcome {
  if (error_kind === 'clientdisconnect') return 'left';
  if (!connected) return 'refused';
  return error_kind ? 'failed' : 'answered';
}

function count<K>(counts: Map<K, number>, key: K): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
