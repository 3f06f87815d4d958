import { isIP, isIPv6 } from 'node:net';

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

/** True for addresses of this machine only: `127.0.0.0/8` and `::1`, also as IPv6 shows IPv4. */
export function isLoopback(peer: string | undefined): boolean {
  const address = peer?.replace(/:\d+$/, '').replace(/^\[|\]$/g, '') ?? '';
  const plain = address.replace(/^::ffff:/i, '');
  return isIP(plain) === 4 ? plain.startsWith('127.') : plain === '::1';
}
