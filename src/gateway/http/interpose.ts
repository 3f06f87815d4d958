import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { LIMITS } from '../../domain/limits.ts';

/**
 * Puts a step in front of an HTTP server: `prepare` gets each new connection, paused or not, and passes on what the server
 * is to see in its place. A connection that is not passed on in the time of a handshake is closed.
 */
export function interpose(server: Server, prepare: (socket: Socket, pass: (opened: Socket) => void) => void): void {
  const serveHttp = server.listeners('connection') as ((socket: Socket) => void)[];
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    // Errors reach us as the end of the socket as well.
    socket.on('error', () => undefined);
    const timer = setTimeout(() => socket.destroy(), LIMITS.handshake_timeout_ms);
    socket.once('close', () => clearTimeout(timer));
    prepare(socket, (opened) => {
      clearTimeout(timer);
      for (const listener of serveHttp) listener.call(server, opened);
      opened.resume();
    });
  });
}
