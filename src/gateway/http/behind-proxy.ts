import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { LIMITS } from '../../domain/limits.ts';
import type { ByteChannel } from '../byte-channel.ts';
import { closeGently } from '../close-gently.ts';
import { standFor } from '../peer.ts';
import { type ProxyRules, receiveProxyHeader } from '../proxy-protocol.ts';
import { Refusal } from '../refusal.ts';
import { interpose } from './interpose.ts';

/**
 * Lets an HTTP server take the header of the PROXY protocol in front of each connection. Whoever asks a socket for its
 * other end from then on hears of the balancer's client. What is refused gets an answer in HTTP, before any TLS.
 */
export function serveBehindProxy(server: Server, rules: ProxyRules): void {
  interpose(server, (socket, pass) => {
    receive(socket, rules).then(
      (taken) => taken && pass(socket),
      () => socket.destroy(),
    );
  });
}

/** False when the connection was refused, and is closed. */
async function receive(socket: Socket, rules: ProxyRules): Promise<boolean> {
  let channel: ByteChannel | undefined;
  try {
    const client = await receiveProxyHeader(socket, rules, (opened) => {
      channel = opened;
    });
    if (client) standFor(socket, client);
    return true;
  } catch (error) {
    channel?.release();
    if (error instanceof Refusal) await closeGently(socket, badRequest(error.message), LIMITS.linger_timeout_ms);
    socket.destroy();
    return false;
  }
}

function badRequest(message: string): Buffer {
  const body = JSON.stringify({ code: '', message });
  return Buffer.from(
    `HTTP/1.1 400 Bad Request\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}
