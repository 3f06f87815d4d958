import { isIPv4, SocketAddress } from 'node:net';

const GROUPS_OF_NETWORK = 4;

/**
 * What stands for all addresses that one customer may have: the address itself, or of IPv6 its network of 64 bits.
 *
 * @param address a valid one, without a zone
 */
export function customerNetwork(address: string): string {
  if (isIPv4(address)) return address;
  const shortest = new SocketAddress({ address, family: 'ipv6' }).address;
  const [head = '', tail] = shortest.split('::');
  const left = head.split(':').filter(Boolean);
  const right = tail?.split(':').filter(Boolean) ?? [];
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => '0');
  return [...left, ...zeros, ...right].slice(0, GROUPS_OF_NETWORK).join(':');
}
