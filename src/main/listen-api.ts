import { type AddressInfo, createServer, isIPv6, type Server } from 'node:net';
import type { FastifyInstance } from 'fastify';

/** Serves the API on every address, on one port. Returns the port; closing the API closes all. */
export async function listenApi(api: FastifyInstance, addresses: readonly string[], port: number): Promise<number> {
  const [first, ...rest] = addresses;
  await api.listen({ host: first, port, ipv6Only: isIPv6(first!) });
  const bound = (api.server.address() as AddressInfo).port;
  const others: Server[] = [];
  api.addHook('onClose', async () => {
    await Promise.all(others.map((server) => new Promise((resolve) => server.close(resolve))));
  });
  for (const host of rest) {
    // Fastify listens on one address; the others hand their connections to the same HTTP server.
    const server = createServer((socket) => api.server.emit('connection', socket));
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once('error', reject).listen({ host, port: bound, ipv6Only: isIPv6(host) }, resolve);
    await promise;
    others.push(server);
  }
  return bound;
}
