import { BlockList, isIP, isIPv4, isIPv6, SocketAddress } from 'node:net';

/**
 * Lists of IP addresses as people write them: `203.0.113.7`, `203.0.113.0/24`, `203.0.113.4-203.0.113.9`, and the same of
 * IPv6. An IPv4 address in the clothes of IPv6 (`::ffff:203.0.113.7`) is the IPv4 address; else the families never meet:
 * `::/0` lets in no IPv4.
 */

type Family = 'ipv4' | 'ipv6';

interface Address {
  readonly text: string;
  readonly family: Family;
  /** Bits that the clothes take of a prefix. */
  readonly mapped_bits: number;
}

/** In the shortest spelling. */
const MAPPED = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/;
const MAPPED_BITS = 96;

/** An address in the one form that lists are asked for; undefined for what is none. A zone (`fe80::1%eth0`) is left away. */
export function plainAddress(text: string): string | undefined {
  return parseAddress(text.replace(/%.*$/, ''))?.text;
}

function parseAddress(text: string): Address | undefined {
  if (isIPv4(text)) return { text, family: 'ipv4', mapped_bits: 0 };
  if (!isIPv6(text) || text.includes('%')) return undefined;
  const shortest = new SocketAddress({ address: text, family: 'ipv6' }).address;
  const inner = MAPPED.exec(shortest)?.[1];
  if (inner) return { text: inner, family: 'ipv4', mapped_bits: MAPPED_BITS };
  return { text: shortest, family: 'ipv6', mapped_bits: 0 };
}

type AddToList = (lists: Readonly<Record<Family, BlockList>>) => void;

/** Undefined for what is no rule. */
function parseRule(text: string): AddToList | undefined {
  const slash = text.indexOf('/');
  if (slash !== -1) return parseNetwork(text.slice(0, slash), text.slice(slash + 1));
  const dash = text.indexOf('-');
  if (dash !== -1) return parseRange(text.slice(0, dash), text.slice(dash + 1));
  const address = parseAddress(text);
  return address && ((lists) => lists[address.family].addAddress(address.text, address.family));
}

function parseNetwork(first: string, length: string): AddToList | undefined {
  const address = parseAddress(first);
  if (!address || !/^\d{1,3}$/.test(length)) return undefined;
  const bits = Number(length) - address.mapped_bits;
  if (bits < 0 || bits > (address.family === 'ipv4' ? 32 : 128)) return undefined;
  return (lists) => lists[address.family].addSubnet(address.text, bits, address.family);
}

function parseRange(first: string, last: string): AddToList | undefined {
  const [from, to] = [parseAddress(first), parseAddress(last)];
  if (!from || !to || from.family !== to.family) return undefined;
  try {
    // The list knows which of two addresses comes first.
    new BlockList().addRange(from.text, to.text, from.family);
  } catch {
    return undefined;
  }
  return (lists) => lists[from.family].addRange(from.text, to.text, from.family);
}

/** Whether a text is an address, a range or a network. */
export const isAddressRule = (text: string): boolean => parseRule(text) !== undefined;

/** Answers whether an address is on a list. What is no address is on none. */
export type AddressList = (address: string) => boolean;

/** The list of the rules; one that cannot be read matches nothing. */
export function addressList(rules: readonly string[]): AddressList {
  const lists = { ipv4: new BlockList(), ipv6: new BlockList() };
  for (const rule of rules) parseRule(rule)?.(lists);
  return (address) => {
    const plain = plainAddress(address);
    if (plain === undefined) return false;
    return isIP(plain) === 4 ? lists.ipv4.check(plain, 'ipv4') : lists.ipv6.check(plain, 'ipv6');
  };
}

/** This machine, and networks that no router of the internet carries (RFC 1918, 3927, 4193, 4291, 6598). */
export const isPrivateAddress: AddressList = addressList([
  '127.0.0.0/8',
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '169.254.0.0/16',
  '100.64.0.0/10',
  '::1',
  'fc00::/7',
  'fe80::/10',
]);
