import type { IncomingMessage } from 'node:http';
import type { TLSSocket } from 'node:tls';
import type { TlsSession } from '../handshake.ts';

/** How an HTTP request is encrypted; undefined when it is not. */
export function tlsOf({ socket }: IncomingMessage): TlsSession | undefined {
  if (!(socket as Partial<TLSSocket>).encrypted) return undefined;
  return { protocol: (socket as TLSSocket).getProtocol(), channelBinding: undefined };
}
