import { isPrivateAddress } from '../domain/address-rules.ts';
import type { EndpointId } from '../domain/ids.ts';
import type { ConnectionRecord } from './connection-record.ts';
import { addressOf } from './peer.ts';

/** What passed between clients and an endpoint since it was last taken. */
export interface Transfer {
  readonly endpoint_id: EndpointId;
  /** From clients. */
  received_bytes: number;
  /** To clients; */
  sent_bytes: number;
  /** of these, to such as are in private networks. */
  private_bytes: number;
}

interface Taken {
  readonly id: EndpointId;
  received_bytes: number;
  sent_bytes: number;
}

/**
 * Adds up, for metering, what passed. Nothing here is called for a message: what a connection has at a moment is read from
 * its record when somebody takes it, or when it ends.
 */
export class Transfers {
  readonly #onBegin: () => void;
  readonly #open = new Map<ConnectionRecord, Taken>();
  readonly #ended = new Map<EndpointId, Transfer>();

  /** @param onBegin there may be something to take from now on, where there was nothing before */
  constructor(onBegin: () => void) {
    this.#onBegin = onBegin;
  }

  /** False: there is nothing to take, and will be nothing before somebody comes. */
  get pending(): boolean {
    return this.#open.size + this.#ended.size > 0;
  }

  entered(record: ConnectionRecord, id: EndpointId): void {
    const idle = !this.pending;
    this.#open.set(record, { id, received_bytes: 0, sent_bytes: 0 });
    if (idle) this.#onBegin();
  }

  /** The connection has ended, and its record is complete. */
  ended(record: ConnectionRecord): void {
    this.#read(record);
    this.#open.delete(record);
  }

  /** What passed since the last call; endpoints with nothing are left out. */
  take(): Transfer[] {
    for (const record of this.#open.keys()) this.#read(record);
    const transfers = [...this.#ended.values()];
    this.#ended.clear();
    return transfers;
  }

  #read(record: ConnectionRecord): void {
    const taken = this.#open.get(record);
    if (!taken) return;
    const received_bytes = record.bytes_in - taken.received_bytes;
    const sent_bytes = record.bytes_out - taken.sent_bytes;
    if (received_bytes === 0 && sent_bytes === 0) return;
    taken.received_bytes = record.bytes_in;
    taken.sent_bytes = record.bytes_out;
    const { id: endpoint_id } = taken;
    const sum = this.#ended.get(endpoint_id) ?? { endpoint_id, received_bytes: 0, sent_bytes: 0, private_bytes: 0 };
    this.#ended.set(endpoint_id, sum);
    sum.received_bytes += received_bytes;
    sum.sent_bytes += sent_bytes;
    if (isPrivateAddress(addressOf(record.peer) ?? '')) sum.private_bytes += sent_bytes;
  }
}
