import type { Server } from 'node:http';
import type { Certificates } from '../certificates.ts';
import { standFor } from '../peer.ts';
import { upgradeToTls } from '../upgrade-to-tls.ts';
import { interpose } from './interpose.ts';

const TLS_HANDSHAKE_BYTE = 0x16;

/** Lets an HTTP server serve HTTPS on the same port, too: the first byte of a connection tells. */
export function tlsOrPlain(server: Server, certificates: Certificates): void {
  interpose(server, (socket, pass) => {
    socket.once('data', (first: Buffer) => {
      socket.pause();
      socket.unshift(first);
      if (first[0] !== TLS_HANDSHAKE_BYTE) pass(socket);
      else
        upgradeToTls(socket, certificates, 'http/1.1').then(
          ({ socket: opened }) => {
            // What the connection below was said to be is said of this one as well.
            standFor(opened, socket);
            pass(opened);
          },
          () => socket.destroy(),
        );
    });
  });
}
