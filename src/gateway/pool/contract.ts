import type { BackendKey } from '../../wire/backend-messages.ts';
import type { Message } from '../../wire/message.ts';
import type { ScramKeys } from '../../wire/scram.ts';
import type { ConnectTimes } from '../connect-compute.ts';
import type { EndpointEntry } from '../contract.ts';

/** Which server connections will do. */
export interface ServerWish {
  readonly entry: EndpointEntry;
  readonly user: string;
  readonly database: string;
  /** Won from the client's proof. A connection that was opened with other keys is never handed out. */
  readonly keys: ScramKeys;
  /** The other start-up parameters, `options` without what names the endpoint. They hold while the connection is lent. */
  readonly parameters: ReadonlyMap<string, string>;
  /** Added to as time goes into a wake or a new connection. */
  readonly times: ConnectTimes;
  /** Called once when the wait for a free connection has become long. */
  readonly onLongWait?: () => void;
}

/** A server connection that is lent to one borrower, at ReadyForQuery and outside of a transaction. */
export interface ServerLease {
  /** The server's own key; undefined when it sent none. `cancel` is the way to use it. */
  readonly key: BackendKey | undefined;
  /** Sends whole messages. The bytes are kept until they are written. */
  send(bytes: Buffer): void;
  /**
   * The next message; its memory is the caller's. Nothing is read from the server beyond about one read while nobody
   * asks. Throws a ComputeRefusal with the server's last words where it said any, else a Refusal, when the server is gone.
   * @param limit_bytes a longer message throws a ProtocolError; the connection can then only be released as broken
   */
  receive(limit_bytes: number): Promise<Message>;
  /** Asks the server to end what it does; the answer is its error. The connection is not lent on before that is done. */
  cancel(): Promise<void>;
  /**
   * Gives the connection back, once. `clean`: the last message received was the ReadyForQuery to the last one sent, with
   * the status `I`; the session is then cleaned before anybody else gets it. `broken`: anything else; it is closed.
   */
  release(outcome: 'clean' | 'broken'): void;
}

/** The pools of server connections of a gateway, one for each endpoint, database, role, keys and set of parameters. */
export interface ServerPools {
  /**
   * A logged-in server connection: an idle one, the last used first, or a new one while the endpoint has room, else the
   * next to be given back, in the order of asking. A sleeping compute is woken. Throws what `connectCompute` throws, a
   * Refusal (53300) when too many wait or the wait is too long, or the reason of `signal` when that aborts first.
   */
  acquire(wish: ServerWish, signal: AbortSignal): Promise<ServerLease>;
}
