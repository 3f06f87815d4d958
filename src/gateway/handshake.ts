import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { LIMITS } from '../domain/limits.ts';
import type { BackendKey } from '../wire/backend-messages.ts';
import { ProtocolError } from '../wire/message.ts';
import { type FirstPacket, type Startup, takeFirstPacket } from '../wire/startup.ts';
import { ByteChannel } from './byte-channel.ts';
import type { Certificates } from './certificates.ts';
import { ClientGone, refusals } from './refusal.ts';
import { upgradeToTls } from './upgrade-to-tls.ts';

/** How a connection is encrypted. */
export interface TlsSession {
  readonly protocol: string | null;
  readonly channelBinding: Buffer | undefined;
}

/** What a client said before authentication: who it wants to be, or whom to cancel. */
export interface Opening {
  readonly tls: TlsSession | undefined;
  /** The host name that the client asked for, if it sent one. */
  readonly servername: string | undefined;
  /** The client is asked for its password as it is. */
  readonly cleartext: boolean;
  readonly packet: Startup | { readonly kind: 'cancel'; readonly key: BackendKey };
}

/**
 * Reads up to the start-up or cancel packet. `onChannel` hears of each channel that the client can be told something over,
 * and of undefined while TLS is agreed on. Throws a ProtocolError, a Refusal or ClientGone.
 */
export type ReceiveOpening = (onChannel: (channel: ByteChannel | undefined) => void) => Promise<Opening>;

const ALPN_PROTOCOL = 'postgresql';
/** Room for a start-up packet and what a client may send ahead of the answer. */
const CHANNEL_BYTES = 2 * LIMITS.startup_packet_bytes;

const clientChannel = (stream: Duplex): ByteChannel =>
  new ByteChannel(stream, CHANNEL_BYTES, (cause) => new ClientGone({ cause }));

/** The opening of a socket: through TLS where the client asks for it, by SSLRequest or directly. */
export const receiveFromSocket =
  (socket: Socket, certificates: Certificates): ReceiveOpening =>
  async (onChannel) => {
    let channel = clientChannel(socket);
    onChannel(channel);
    let secured: Pick<Opening, 'tls' | 'servername'> = { tls: undefined, servername: undefined };

    async function encrypt(direct: boolean): Promise<void> {
      if (secured.tls) throw new ProtocolError('the connection is encrypted already');
      onChannel(undefined);
      const { socket: encrypted, ...session } = await upgrade(channel, certificates);
      secured = session;
      channel = clientChannel(encrypted);
      onChannel(channel);
      if (direct && encrypted.alpnProtocol !== ALPN_PROTOCOL) throw refusals.directTlsWithoutAlpn();
    }

    let gssAsked = false;
    for (;;) {
      const packet = await channel.take((bytes) => takeFirstPacket(bytes, LIMITS.startup_packet_bytes));
      switch (packet.kind) {
        case 'tls':
          await encrypt(true);
          break;
        case 'ssl_request':
          if (!secured.tls) channel.write(Buffer.from('S'));
          await encrypt(false);
          break;
        case 'gss_request':
          if (gssAsked || secured.tls) throw new ProtocolError('encryption was asked for twice');
          gssAsked = true;
          channel.write(Buffer.from('N'));
          break;
        default:
          return { ...secured, cleartext: false, packet };
      }
    }
  };

/** The opening of a stream that came through HTTP, which has seen to TLS and to the host name. */
export const receiveFromHttp =
  (stream: Duplex, session: Pick<Opening, 'tls' | 'servername'>): ReceiveOpening =>
  async (onChannel) => {
    const channel = clientChannel(stream);
    onChannel(channel);
    const declined = new Set<FirstPacket['kind']>();
    for (;;) {
      const packet = await channel.take((bytes) => takeFirstPacket(bytes, LIMITS.startup_packet_bytes));
      switch (packet.kind) {
        case 'tls':
          throw new ProtocolError('TLS inside a WebSocket is not supported: use wss');
        case 'ssl_request':
        case 'gss_request':
          if (declined.has(packet.kind)) throw new ProtocolError('encryption was asked for twice');
          declined.add(packet.kind);
          channel.write(Buffer.from('N'));
          break;
        default:
          return { ...session, cleartext: true, packet };
      }
    }
  };

/** Wraps the channel's socket in TLS. Bytes that came already, a client's hello sent ahead, are the first that TLS reads. */
async function upgrade(
  channel: ByteChannel,
  certificates: Certificates,
): Promise<{ socket: TLSSocket; tls: TlsSession; servername: string | undefined }> {
  const plain = channel.stream as Socket;
  const rest = channel.release();
  if (plain.destroyed) throw new ClientGone();
  if (rest.length > 0) plain.unshift(rest);
  const { socket, servername, channelBinding } = await upgradeToTls(plain, certificates, ALPN_PROTOCOL);
  return { socket, tls: { protocol: socket.getProtocol(), channelBinding }, servername };
}
