import { type LookupAddress, lookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { addressList } from './address-rules.ts';
import { LIMITS } from './limits.ts';

/** Where callers may send us: for the keys of their issuers of tokens (JWKS), and with events to their webhooks. */

const isLoopback = addressList(['127.0.0.0/8', '::1']);

/**
 * Addresses that nobody else's server has: of this host, of its link, where clouds tell a machine its own secrets, and of
 * many at once. Those of private networks may be a customer's. The last two are what a translator (NAT64) makes of such.
 */
const isNobodys = addressList([
  '0.0.0.0/8',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '100.100.100.200',
  '192.0.0.0/24',
  '224.0.0.0/3',
  '::/128',
  '::1',
  'fe80::/10',
  'fd00:ec2::/32',
  'fd20:ce::/32',
  'ff00::/8',
  '64:ff9b::7f00:0/104',
  '64:ff9b::a9fe:0/112',
]);

/** Whether this machine itself may be meant, too, and without TLS: only where everything else is on it as well. */
export const isLocalDomain = (domain: string): boolean => domain === 'localhost' || domain.endsWith('.localhost');

/**
 * Why we do not connect to an address; undefined when we do. To be asked of the address that is connected to: a name
 * may lead elsewhere each time.
 * @for-tests, which ask it of addresses that no name leads to here.
 */
export function outboundAddressProblem(address: string, loopback: boolean): string | undefined {
  if (!isNobodys(address) || (loopback && isLoopback(address))) return undefined;
  return 'the address is this machine, its link or a metadata service';
}

/** Why we send nothing to a URL, as far as its text tells; undefined when we do. */
export function outboundUrlProblem(text: string, loopback: boolean): string | undefined {
  if (text.length > LIMITS.outbound_url_characters)
    return `must be at most ${LIMITS.outbound_url_characters} characters`;
  const url = URL.parse(text);
  if (!url) return 'must be a URL';
  if (url.username || url.password) return 'must not hold credentials';
  if (url.hash) return 'must not have a fragment';
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  if (isIP(host)) {
    const problem = outboundAddressProblem(host, loopback);
    if (problem) return `must not be there: ${problem}`;
  }
  if (url.protocol === 'https:') return undefined;
  const here = isIP(host) ? isLoopback(host) : isLocalDomain(host);
  if (url.protocol === 'http:' && here && loopback) return undefined;
  return loopback ? 'must be https, or http on this machine' : 'must be https';
}

/**
 * Looks names up for connections of ours. A name that leads to any address that we do not connect to leads nowhere: the next
 * attempt might take that one.
 */
export function guardedLookup(loopback: boolean): LookupFunction {
  return (name, options, found) => {
    const onFound = (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => {
      if (error) return found(error, []);
      const problem = addresses.map(({ address }) => outboundAddressProblem(address, loopback)).find(Boolean);
      if (problem) return found(new Error(`nothing is sent there: ${problem}`), []);
      if (options.all) found(null, addresses);
      else found(null, addresses[0]!.address, addresses[0]!.family);
    };
    lookup(name, { ...options, all: true }, onFound);
  };
}
