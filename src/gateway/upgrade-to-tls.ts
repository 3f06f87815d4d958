import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Certificates } from './certificates.ts';
import { ClientGone } from './refusal.ts';

/** A socket that is encrypted now. */
export interface Secured {
  readonly socket: TLSSocket;
  /** The host name that the client asked for, if it sent one. */
  readonly servername: string | undefined;
  /** What SCRAM binds to. */
  readonly channelBinding: Buffer | undefined;
}

/** Goes through the server's side of a TLS handshake. Throws ClientGone when that fails. */
export async function upgradeToTls(plain: Socket, certificates: Certificates, protocol: string): Promise<Secured> {
  let served = await certificates.forName(undefined);
  const socket = new TLSSocket(plain, {
    isServer: true,
    secureContext: served.context,
    // A list would be kept as bytes of a pool, of which each socket would keep 64 KB from being freed.
    ALPNCallback: ({ protocols }) => (protocols.includes(protocol) ? protocol : undefined),
    SNICallback(servername, callback) {
      certificates.forName(servername).then(
        (found) => {
          served = found;
          callback(null, found.context);
        },
        (error) => callback(error),
      );
    },
  });
  await secured(socket);
  const servername = (socket as { servername?: string | false | null }).servername || undefined;
  return { socket, servername, channelBinding: served.channelBinding };
}

function secured(socket: TLSSocket): Promise<void> {
  return new Promise((resolve, reject) => {
    let cause: Error | undefined;
    const remember = (error: Error) => {
      cause = error;
    };
    const onClose = () => reject(new ClientGone({ cause }));
    // Before the handshake is done, Node tells of its failure only by this event, and then closes.
    socket.on('_tlsError', remember);
    socket.on('error', remember);
    socket.once('close', onClose);
    socket.once('secure', () => {
      // Thousands of sockets stay, and nothing of their beginning with them.
      socket.on('error', ignore).off('_tlsError', remember).off('error', remember).off('close', onClose);
      resolve();
    });
  });
}

const ignore = (): void => undefined;
