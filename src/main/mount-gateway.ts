import type { RequestListener, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Certificates } from '../gateway/certificates.ts';
import type { Gateway } from '../gateway/gateway.ts';
import { tlsOrPlain } from '../gateway/http/tls-or-plain.ts';

/** A gateway, and what it shows who asks for TLS. */
export interface Gate {
  readonly gateway: Gateway;
  readonly certificates: Certificates;
}

const NOT_FOUND = 'HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n';

/**
 * Lets the gateway have its part of what comes to an HTTP server, WebSockets and SQL, before anybody else sees it: what a
 * framework does for each request would be a good part of what a query costs.
 */
export function mountGateway(server: Server, { gateway, certificates }: Gate): void {
  tlsOrPlain(server, certificates);
  const others = server.listeners('request') as RequestListener[];
  server.removeAllListeners('request');
  server.on('request', (request, response) => {
    if (gateway.request(request, response)) return;
    for (const other of others) other(request, response);
  });
  // Who offers to go on in HTTP/2, as curl does, is served as if nothing had been offered.
  const upgrades = server as Server & {
    shouldUpgradeCallback: (request: { headers: { upgrade?: string } }) => boolean;
  };
  upgrades.shouldUpgradeCallback = ({ headers }) => headers.upgrade?.toLowerCase() === 'websocket';
  server.on('upgrade', (request, socket: Duplex, head) => {
    if (gateway.upgrade(request, socket, head)) return;
    socket.on('error', () => undefined);
    socket.end(NOT_FOUND, () => socket.destroy());
  });
}
