import type { Socket } from 'node:net';
import type { AddressList } from '../domain/address-rules.ts';
import { ByteChannel } from './byte-channel.ts';
import type { ConnectionRecord } from './connection-record.ts';
import type { ReceiveOpening } from './handshake.ts';
import { addressOf } from './peer.ts';
import { PROXY_HEADER_BYTES, takeProxyHeader } from './proxy-header.ts';
import { ClientGone, refusals } from './refusal.ts';

/** Who may say by the PROXY protocol whose a connection is, and whether it has to be said. */
export interface ProxyRules {
  readonly required: boolean;
  /** Headers from anywhere else are refused: whoever is believed can be anybody. */
  readonly from: AddressList;
}

/** The opening of a socket that may come from a balancer. The record then tells the address of the balancer's client. */
export const receiveBehindProxy =
  (
    socket: Socket,
    { required, from }: ProxyRules,
    record: Pick<ConnectionRecord, 'peer'>,
    receive: ReceiveOpening,
  ): ReceiveOpening =>
  async (onChannel) => {
    const channel = new ByteChannel(socket, PROXY_HEADER_BYTES, (cause) => new ClientGone({ cause }));
    onChannel(channel);
    const header = await channel.take(takeProxyHeader);
    const sender = addressOf(record.peer) ?? 'unknown';
    if ((required || header.kind !== 'none') && !from(sender)) throw refusals.proxyNotTrusted(sender);
    if (required && header.kind === 'none') throw refusals.proxyHeaderMissing();
    if (header.kind === 'client') record.peer = header.peer;
    const rest = channel.release();
    if (socket.destroyed) throw new ClientGone();
    if (rest.length > 0) socket.unshift(rest);
    return receive(onChannel);
  };
