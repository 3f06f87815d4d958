import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Stands before a Postgres server's socket, and keeps what clients send for a while. */
export interface SlowSocket {
  /** What clients take for the server's `host`. */
  readonly directory: string;
  /** For everything that is sent from now on. */
  delay(ms: number): void;
  stop(): Promise<void>;
}

const SOCKET = '.s.PGSQL.5432';

/** @param directory where the server's own socket is */
export async function startSlowSocket(directory: string): Promise<SlowSocket> {
  const own = await mkdtemp(join(tmpdir(), 'coppice-slow-'));
  const open = new Set<Socket>();
  let delay_ms = 0;
  const keep = (socket: Socket) => {
    open.add(socket);
    return socket.on('error', () => socket.destroy()).on('close', () => open.delete(socket));
  };
  const server = createServer((client) => {
    const upstream = keep(connect(join(directory, SOCKET)));
    keep(client).on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
    upstream.pipe(client);
    // Timers of one length end in the order in which they began; what is sent after a shorter one must not overtake.
    let last: Promise<void> = Promise.resolve();
    client.on('data', (bytes) => {
      const due = new Promise<void>((resolve) => setTimeout(resolve, delay_ms));
      last = Promise.all([last, due]).then(() => void (upstream.writable && upstream.write(bytes)));
    });
  });
  server.listen(join(own, SOCKET));
  await once(server, 'listening');
  return {
    directory: own,
    delay: (ms) => {
      delay_ms = ms;
    },
    stop: async () => {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, 'close');
      await rm(own, { recursive: true, force: true });
    },
  };
}
