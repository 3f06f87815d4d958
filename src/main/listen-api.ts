import { type AddressInfo, createServer, isIPv6, type Server } from 'node:net';
import type { FastifyInstance } from 'fastify';

/** Serves the API on every address, on one port. */
export async function listenApi(
  api: FastifyInstance,
  addresses: readonly string[],
  port: number,
): Promise<{ port: number; close(): Promise<void> }> {
  const [first, ...rest] = addresses;
  // Fastify logs one of the addresses; whoever started us is told all that matters once we are ready.
  const { level } = api.log;
  api.log.level = 'silent';
  await api.listen({ host: first, port, ipv6Only: isIPv6(first!) }).finally(() => {
    api.log.level = level;
  });
  const bound = (api.server.address() as AddressInfo).port;
  const others: Server[] = [];
  const close = async () => {
    const closed = others.map((server) => new Promise((resolve) => server.close(resolve)));
    await api.close();
    await Promise.all(closed);
  };
  try {
    for (const host of rest) others.push(await handOver(api, host, bound));
    return { port: bound, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Fastify listens on one address; the others hand their connections to the same HTTP server. */
async function handOver(api: FastifyInstance, host: string, port: number): Promise<Server> {
  const server = createServer((socket) => api.server.emit('connection', socket));
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject).listen({ host, port, ipv6Only: isIPv6(host) }, resolve);
  await promise;
  return server;
}
