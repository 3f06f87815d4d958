import { isIP, isIPv6 } from 'node:net';
import { plainAddress } from '../domain/address-rules.ts';

/** Address and port of a client; undefined when it had gone before we looked. */
export function peerOf({
  remoteAddress,
  remotePort,
}: {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
}): string | undefined {
  if (remoteAddress === undefined) return undefined;
  return isIPv6(remoteAddress) ? `[${remoteAddress}]:${remotePort}` : `${remoteAddress}:${remotePort}`;
}

/** The address alone; IPv4 is shown as IPv4, however it came. Undefined for a client that had gone. */
export const addressOf = (peer: string | undefined): string | undefined =>
  peer === undefined ? undefined : plainAddress(peer.replace(/:\d+$/, '').replace(/^\[|\]$/g, ''));

/** True for addresses of this machine only: `127.0.0.0/8` and `::1`, also as IPv6 shows IPv4. */
export function isLoopback(peer: string | undefined): boolean {
  const address = addressOf(peer) ?? '';
  return isIP(address) === 4 ? address.startsWith('127.') : address === '::1';
}
