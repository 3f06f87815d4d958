import { isIP } from 'node:net';
import { addressList } from './address-rules.ts';
import { LIMITS } from './limits.ts';

/** Where the keys of issuers of tokens (JWKS) may be. They are fetched by us, on behalf of whoever names the place. */

const isLoopback = addressList(['127.0.0.0/8', '::1']);

/**
 * Addresses that nobody else's server has: of this host, of its link, where clouds tell a machine its own secrets, and of
 * many at once. Those of private networks may be an issuer's. The last two are what a translator (NAT64) makes of such.
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

/** Whether keys may be fetched from this machine too, without TLS: only where everything else is on it as well. */
export const loopbackJwks = (domain: string): boolean => domain === 'localhost' || domain.endsWith('.localhost');

/**
 * Why keys are not fetched from an address; undefined when they are. To be asked of the address that is connected to: a name
 * may lead elsewhere each time.
 */
export function jwksAddressProblem(address: string, loopback: boolean): string | undefined {
  if (!isNobodys(address) || (loopback && isLoopback(address))) return undefined;
  return 'the address is this machine, its link or a metadata service';
}

/** Why keys cannot be at a URL, as far as its text tells; undefined when they can. */
export function jwksUrlProblem(text: string, loopback: boolean): string | undefined {
  if (text.length > LIMITS.jwks_url_characters) return `must be at most ${LIMITS.jwks_url_characters} characters`;
  const url = URL.parse(text);
  if (!url) return 'must be a URL';
  if (url.username || url.password) return 'must not hold credentials';
  if (url.hash) return 'must not have a fragment';
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  if (isIP(host)) {
    const problem = jwksAddressProblem(host, loopback);
    if (problem) return `must not be there: ${problem}`;
  }
  if (url.protocol === 'https:') return undefined;
  const here = isIP(host) ? isLoopback(host) : loopbackJwks(host);
  if (url.protocol === 'http:' && here && loopback) return undefined;
  return loopback ? 'must be https, or http on this machine' : 'must be https';
}
