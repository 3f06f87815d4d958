import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { LIMITS } from '../../domain/limits.ts';
import type { Certificates } from '../certificates.ts';
import { upgradeToTls } from '../upgrade-to-tls.ts';

const TLS_HANDSHAKE_BYTE = 0x16;

/** Lets an HTTP server serve HTTPS on the same port, too: the first byte of a connection tells. */
export function tlsOrPlain(server: Server, certificates: Certificates): void {
  const serveHttp = server.listeners('connection') as ((socket: Socket) => void)[];
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    // Errors reach us as the end of the socket as well.
    socket.on('error', () => undefined);
    const timer = setTimeout(() => socket.destroy(), LIMITS.handshake_timeout_ms);
    socket.once('close', () => clearTimeout(timer));
    socket.once('data', (first: Buffer) => {
      socket.pause();
      socket.unshift(first);
      const serve = (opened: Socket) => {
        clearTimeout(timer);
        for (const listener of serveHttp) listener.call(server, opened);
        opened.resume();
      };
      if (first[0] !== TLS_HANDSHAKE_BYTE) serve(socket);
      else
        upgradeToTls(socket, certificates, 'http/1.1').then(
          ({ socket: opened }) => serve(opened),
          () => socket.destroy(),
        );
    });
  });
}
