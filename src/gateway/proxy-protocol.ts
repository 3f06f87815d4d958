import type { Socket } from 'node:net';
import type { AddressList } from '../domain/address-rules.ts';
import { ByteChannel } from './byte-channel.ts';
import type { ConnectionRecord } from './connection-record.ts';
import type { ReceiveOpening } from './handshake.ts';
import { addressOf, peerOf, type RemoteEnd } from './peer.ts';
import { PROXY_HEADER_BYTES, takeProxyHeader } from './proxy-header.ts';
import { ClientGone, refusals } from './refusal.ts';

/** Who may say by the PROXY protocol whose a connection is, and whether it has to be said. */
export interface ProxyRules {
  readonly required: boolean;
  /** Headers from anywhere else are refused: whoever is believed can be anybody. */
  readonly from: AddressList;
}

/**
 * Reads the header in front of a connection, and returns the balancer's client where it names one. The socket is paused
 * then and begins with what followed. Throws a Refusal.
 *
 * @param onChannel gets what can answer a refusal
 */
export async function receiveProxyHeader(
  socket: Socket,
  { required, from }: ProxyRules,
  onChannel: (channel: ByteChannel) => void,
): Promise<RemoteEnd | undefined> {
  const channel = new ByteChannel(socket, PROXY_HEADER_BYTES, (cause) => new ClientGone({ cause }));
  onChannel(channel);
  const sender = addressOf(peerOf(socket)) ?? 'unknown';
  const header = await channel.take(takeProxyHeader);
  if ((required || header.kind !== 'none') && !from(sender)) throw refusals.proxyNotTrusted(sender);
  if (required && header.kind === 'none') throw refusals.proxyHeaderMissing();
  const rest = channel.release();
  if (socket.destroyed) throw new ClientGone();
  if (rest.length > 0) socket.unshift(rest);
  return header.kind === 'client' ? header.client : undefined;
}

/** The opening of a socket that may come from a balancer. The record then tells the address of the balancer's client. */
export const receiveBehindProxy =
  (
    socket: Socket,
    rules: ProxyRules,
    record: Pick<ConnectionRecord, 'peer'>,
    receive: ReceiveOpening,
  ): ReceiveOpening =>
  async (onChannel) => {
    const client = await receiveProxyHeader(socket, rules, onChannel);
    if (client) record.peer = peerOf(client);
    return receive(onChannel);
  };
