import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Gateway } from '../../src/gateway/gateway.ts';

/** An HTTP server that has nothing but a gateway behind it. */
export interface HttpDoor extends AsyncDisposable {
  readonly port: number;
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
}

/** @param prepare what stands in front of the server */
export async function openHttpDoor(gateway: Gateway, prepare?: (server: Server) => void): Promise<HttpDoor> {
  const server = createServer((request, response) => {
    if (!gateway.request(request, response)) response.writeHead(404).end();
  });
  server.on('upgrade', (request, socket, head) => {
    if (!gateway.upgrade(request, socket, head)) socket.destroy();
  });
  prepare?.(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
