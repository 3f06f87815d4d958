import { createHash } from 'node:crypto';
import type { Duplex } from 'node:stream';
import type { EndpointId } from '../../domain/ids.ts';
import { LIMITS } from '../../domain/limits.ts';
import { query } from '../../wire/frontend-messages.ts';
import type { Message } from '../../wire/message.ts';
import { MessageReader } from '../../wire/message-reader.ts';
import { cancelQuery } from '../cancel-query.ts';
import { connectCompute } from '../connect-compute.ts';
import type { Waker } from '../contract.ts';
import { refusals } from '../refusal.ts';
import type { ServerLease, ServerPools, ServerWish } from './server-lease.ts';

const READY_FOR_QUERY = 'Z'.charCodeAt(0);

/** Keeps server connections from one request to the next. What is idle is closed after a while, and at `stopping`. */
export function keptServers(waker: Waker, stopping: AbortSignal): ServerPools {
  const idle = new Map<string, KeptServer[]>();
  const forget = (name: string, server: KeptServer) => {
    const left = idle.get(name)?.filter((other) => other !== server) ?? [];
    if (left.length > 0) idle.set(name, left);
    else idle.delete(name);
  };
  const keep = (name: string, server: KeptServer) => {
    const servers = idle.get(name) ?? [];
    if (servers.length >= LIMITS.sql_servers_kept || stopping.aborted) return server.close();
    idle.set(name, [...servers, server]);
    server.rest(() => forget(name, server));
  };
  stopping.addEventListener('abort', () => {
    for (const servers of idle.values()) for (const server of servers) server.close();
  });
  return {
    async acquire(wish, signal) {
      const name = nameOf(wish);
      const known = idle.get(name)?.at(-1);
      if (known) {
        forget(name, known);
        known.wake();
        return known.lease((server) => keep(name, server));
      }
      const parameters = new Map([['user', wish.user], ['database', wish.database], ...wish.parameters]);
      const session = await connectCompute({ ...wish, parameters }, waker, signal);
      const target = session.key && { endpoint_id: wish.entry.endpoint_id, key: session.key };
      const cancel = async () => (target ? cancelQuery(target, waker) : undefined);
      return new KeptServer(session.stream, cancel).lease((server) => keep(name, server));
    },
  };
}

/** Connections with one name can stand in for each other. The keys make that of who proved to know them. */
function nameOf({ entry, user, database, keys, parameters }: ServerWish): string {
  const id: EndpointId = entry.endpoint_id;
  const secret = createHash('sha256').update(keys.clientKey).digest('base64');
  return JSON.stringify([id, user, database, secret, [...parameters]]);
}

class KeptServer {
  readonly #stream: Duplex;
  readonly #cancel: () => Promise<void>;
  readonly #reader: MessageReader;
  readonly #received: Message[] = [];
  #gone = false;
  #waiting: (() => void) | undefined;
  #onIdleEnd: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(stream: Duplex, cancel: () => Promise<void>) {
    this.#stream = stream;
    this.#cancel = cancel;
    this.#reader = new MessageReader(LIMITS.sql_response_bytes, (type, body) => {
      this.#received.push({ type, body, raw: body });
    });
    const end = () => {
      this.#gone = true;
      this.#waiting?.();
      this.#onIdleEnd?.();
      this.close();
    };
    stream.on('end', end).on('close', end).on('error', end);
    stream.on('data', (chunk: Buffer) => {
      try {
        this.#reader.push(chunk);
      } catch {
        return end();
      }
      if (this.#received.length > 0) stream.pause();
      this.#waiting?.();
    });
  }

  lease(giveBack: (server: KeptServer) => void): ServerLease {
    return {
      key: undefined,
      send: (bytes) => void this.#stream.write(bytes),
      receive: () => this.#receive(),
      cancel: this.#cancel,
      release: (outcome) => {
        if (outcome === 'broken' || this.#gone) this.close();
        else
          this.#clean().then(
            () => giveBack(this),
            () => this.close(),
          );
      },
    };
  }

  async #receive(): Promise<Message> {
    while (this.#received.length === 0) {
      if (this.#gone) throw refusals.computeUnreachable(new Error('the server closed the connection'));
      await new Promise<void>((resolve) => {
        this.#waiting = resolve;
        this.#stream.resume();
      });
      this.#waiting = undefined;
    }
    return this.#received.shift()!;
  }

  async #clean(): Promise<void> {
    this.#stream.write(query('DISCARD ALL'));
    let received = await this.#receive();
    while (received.type !== READY_FOR_QUERY) received = await this.#receive();
    if (received.body.toString('latin1') !== 'I') throw new Error('the session could not be cleaned');
  }

  /** Waits to be used again; `onEnd` is called when it is not. */
  rest(onEnd: () => void): void {
    this.#onIdleEnd = onEnd;
    this.#timer = setTimeout(() => this.#stream.destroy(), LIMITS.sql_server_idle_ms).unref();
    this.#stream.resume();
  }

  wake(): void {
    clearTimeout(this.#timer);
    this.#onIdleEnd = undefined;
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#stream.destroy();
  }
}
