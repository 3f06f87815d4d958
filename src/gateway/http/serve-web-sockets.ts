import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type ServerOptions, WebSocketServer } from 'ws';
import { LIMITS } from '../../domain/limits.ts';
import { byteBudget } from '../byte-budget.ts';
import { type ReceiveOpening, receiveFromHttp } from '../handshake.ts';
import { namedHost } from '../route.ts';
import { tlsOf } from './tls-of-request.ts';
import { WebSocketStream } from './web-socket-stream.ts';

const PATHS = new Set(['/v1', '/v2']);

/** Serves one client over the stream of its WebSocket. */
export type ServeStream = (request: IncomingMessage, stream: Duplex, receiveOpening: ReceiveOpening) => void;

/** Takes over a connection whose client asks for a WebSocket. False when its path is none of ours. */
export type UpgradeHandler = (request: IncomingMessage, carrier: Duplex, head: Buffer) => boolean;

/**
 * The protocol of Postgres inside WebSockets, at `/v2`, and at `/v1` as older proxies have it. The endpoint comes from the
 * host of `?address=<host>:<port>` where that is given, else from the `Host` header.
 */
export function webSockets(
  { domain, linger_timeout_ms }: { domain: string; linger_timeout_ms: number },
  serve: ServeStream,
): UpgradeHandler {
  const budget = byteBudget(LIMITS.websocket_held_bytes);
  const options: ServerOptions & { closeTimeout: number } = {
    noServer: true,
    clientTracking: false,
    // Compression of what is small, or compressed already, costs more than it saves, and can be made to explode.
    perMessageDeflate: false,
    maxPayload: LIMITS.websocket_message_bytes,
    closeTimeout: linger_timeout_ms,
  };
  const server = new WebSocketServer(options);
  return (request, carrier, head) => {
    const [path = '', search] = request.url!.split('?', 2);
    if (!PATHS.has(path)) return false;
    carrier.on('error', () => undefined);
    server.handleUpgrade(request, carrier, head, (socket) => {
      const stream = new WebSocketStream(socket, carrier, budget);
      // Errors reach us as the end of the stream as well.
      stream.on('error', () => undefined);
      const servername = namedHost(new URLSearchParams(search).get('address') ?? request.headers.host, domain);
      serve(request, stream, receiveFromHttp(stream, { tls: tlsOf(request), servername }));
    });
    return true;
  };
}
