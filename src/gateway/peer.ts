import { isIP, isIPv6, type Socket } from 'node:net';
import { plainAddress } from '../domain/address-rules.ts';

/** The other end of a connection, in the words of a socket. */
export interface RemoteEnd {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
}

/** Address and port of a client; undefined when it had gone before we looked. */
export function peerOf({ remoteAddress, remotePort }: RemoteEnd): string | undefined {
  if (remoteAddress === undefined) return undefined;
  return isIPv6(remoteAddress) ? `[${remoteAddress}]:${remotePort}` : `${remoteAddress}:${remotePort}`;
}

/** Lets a socket tell this other end in place of its own. */
export function standFor(socket: Socket, { remoteAddress, remotePort }: RemoteEnd): void {
  Object.defineProperties(socket, { remoteAddress: { value: remoteAddress }, remotePort: { value: remotePort } });
}

/** The address alone; IPv4 is shown as IPv4, however it came. Undefined for a client that had gone. */
export const addressOf = (peer: string | undefined): string | undefined =>
  peer === undefined ? undefined : plainAddress(peer.replace(/:\d+$/, '').replace(/^\[|\]$/g, ''));

/** True for addresses of this machine only: `127.0.0.0/8` and `::1`, also as IPv6 shows IPv4. */
export function isLoopback(peer: string | undefined): boolean {
  const address = addressOf(peer) ?? '';
  return isIP(address) === 4 ? address.startsWith('127.') : address === '::1';
}
