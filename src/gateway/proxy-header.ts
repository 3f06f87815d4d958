import { SocketAddress } from 'node:net';
import type { Taken } from '../wire/message.ts';
import type { RemoteEnd } from './peer.ts';
import { refusals } from './refusal.ts';

/**
 * The PROXY protocol, version 2: a load balancer says in front of the connection whose it is.
 * https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt
 */

/** What stood in front of a connection. */
type ProxyHeader =
  | { readonly kind: 'none' }
  /** The balancer speaks for itself, or does not know for whom. */
  | { readonly kind: 'own' }
  | { readonly kind: 'client'; readonly client: RemoteEnd };

const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');
const FIXED_BYTES = 16;
/** Addresses and a certificate's names fit well; more than this no balancer says. */
const HEADER_BYTES = 4096;
/** The longest header that is taken. */
export const PROXY_HEADER_BYTES = FIXED_BYTES + HEADER_BYTES;
const TLV_HEADER_BYTES = 3;
const VERSION = 2;
const LOCAL = 0;
const PROXY = 1;
const UNSPECIFIED = 0x00;
/** Bytes of both addresses and ports, by family and transport. */
const TCP4 = { code: 0x11, bytes: 12 };
const TCP6 = { code: 0x21, bytes: 36 };

/** Reads a header from the first bytes of a connection; undefined while there are too few of them. Throws a Refusal. */
export function takeProxyHeader(bytes: Buffer): Taken<ProxyHeader> | undefined {
  if (bytes[0] !== SIGNATURE[0]) return { value: { kind: 'none' }, bytes: 0 };
  const present = Math.min(bytes.length, SIGNATURE.length);
  if (!bytes.subarray(0, present).equals(SIGNATURE.subarray(0, present))) throw malformed('its signature is wrong');
  if (bytes.length < FIXED_BYTES) return undefined;
  const length = bytes.readUInt16BE(14);
  if (length > HEADER_BYTES) throw malformed('it is too long');
  const [version, command] = [bytes[12]! >> 4, bytes[12]! & 0x0f];
  if (version !== VERSION) throw malformed(`its version is ${version}`);
  if (command !== LOCAL && command !== PROXY) throw malformed('its command is unknown');
  const end = FIXED_BYTES + length;
  if (bytes.length < end) return undefined;
  // What is said beside "it is me" is to be skipped unread.
  const value: ProxyHeader =
    command === LOCAL ? { kind: 'own' } : readAddresses(bytes[13]!, bytes.subarray(FIXED_BYTES, end));
  return { value, bytes: end };
}

function readAddresses(family: number, body: Buffer): ProxyHeader {
  if (family === UNSPECIFIED) return { kind: 'own' };
  const layout = [TCP4, TCP6].find(({ code }) => code === family);
  if (!layout) throw malformed('it is not of a TCP connection');
  if (body.length < layout.bytes) throw malformed('its addresses are cut off');
  checkTlvs(body.subarray(layout.bytes));
  const remoteAddress = layout === TCP4 ? body.subarray(0, 4).join('.') : ipv6Text(body.subarray(0, 16));
  const remotePort = body.readUInt16BE(layout === TCP4 ? 8 : 32);
  return { kind: 'client', client: { remoteAddress, remotePort } };
}

function ipv6Text(address: Buffer): string {
  const groups = Array.from({ length: 8 }, (_, at) => address.readUInt16BE(2 * at).toString(16));
  return new SocketAddress({ address: groups.join(':'), family: 'ipv6' }).address;
}

/** Nothing that they say is needed, but they have to fill the header. */
function checkTlvs(bytes: Buffer): void {
  let at = 0;
  while (at < bytes.length) {
    if (at + TLV_HEADER_BYTES > bytes.length) throw malformed('its last field is cut off');
    at += TLV_HEADER_BYTES + bytes.readUInt16BE(at + 1);
  }
  if (at !== bytes.length) throw malformed('its last field is cut off');
}

const malformed = (problem: string) => refusals.proxyHeaderMalformed(problem);
