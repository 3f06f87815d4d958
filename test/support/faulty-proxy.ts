import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** What happens to connections that are made from now on. */
export type ProxyFault =
  | { readonly kind: 'none' }
  /** Cut off at once, the next `times` of them or all. */
  | { readonly kind: 'down'; readonly times?: number }
  /** Taken, and never answered. */
  | { readonly kind: 'silent' }
  /** Answered with 503, the next `times` of them or all. */
  | { readonly kind: 'busy'; readonly times?: number }
  /** Cut off after so many bytes of the answer, the next `times` of them or all, once `skip` of them have passed. */
  | { readonly kind: 'cut'; readonly after_bytes: number; readonly times?: number; readonly skip?: number };

/** Stands before a server that takes one request a connection, and spoils what is asked of it. */
export interface FaultyProxy {
  readonly port: number;
  /** How many connections were made so far. */
  readonly connections: () => number;
  set(fault: ProxyFault): void;
  stop(): Promise<void>;
}

const BUSY = 'HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n';

/** @param path the Unix socket that the server listens on */
export async function startFaultyProxy(path: string): Promise<FaultyProxy> {
  let fault: ProxyFault = { kind: 'none' };
  let left = Number.POSITIVE_INFINITY;
  let skip = 0;
  let connections = 0;
  const open = new Set<Socket>();
  const keep = (socket: Socket) => {
    open.add(socket);
    socket.on('error', () => socket.destroy()).on('close', () => open.delete(socket));
    return socket;
  };
  const server = createServer((client) => {
    keep(client);
    connections += 1;
    const { kind } = left > 0 && skip === 0 ? fault : { kind: 'none' as const };
    if (kind !== 'none') left -= 1;
    else if (skip > 0) skip -= 1;
    if (kind === 'down') return client.destroy();
    if (kind === 'silent') return client.resume();
    if (kind === 'busy') return answerBusy(client);
    const upstream = keep(connect(path));
    const close = () => {
      client.destroy();
      upstream.destroy();
    };
    client.pipe(upstream);
    client.on('close', close);
    upstream.on('error', close);
    if (fault.kind !== 'cut' || kind !== 'cut') return upstream.pipe(client);
    let rest = fault.after_bytes;
    upstream.on('data', (bytes: Buffer) => {
      client.write(bytes.subarray(0, rest));
      rest -= bytes.length;
      if (rest <= 0) client.end(close);
    });
    upstream.on('end', () => client.end());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => connections,
    set: (next) => {
      fault = next;
      skip = next.kind === 'cut' ? (next.skip ?? 0) : 0;
      left = 'times' in next && next.times !== undefined ? next.times : Number.POSITIVE_INFINITY;
    },
    stop: async () => {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Once the request has begun; its body may come in full. */
function answerBusy(client: Socket): void {
  client.once('data', () => client.end(BUSY));
  client.resume();
}
