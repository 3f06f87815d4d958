import type { BackendKey } from './backend-messages.ts';
import { ProtocolError, type Taken, takeCstring } from './message.ts';

/** The first bytes of a connection. Source: PostgreSQL documentation, "Message Flow: Start-up" and "SSL Session Encryption". */

export const CANCEL_REQUEST_CODE = 80877102;
const SSL_REQUEST_CODE = 80877103;
const GSS_REQUEST_CODE = 80877104;
const TLS_HANDSHAKE_BYTE = 0x16;
const CANCEL_SECRET_BYTES_MAX = 256;

export const protocolVersion = (major: number, minor: number): number => (major << 16) | minor;

/** The newest version spoken to clients: 3.2 has cancel keys of any length. */
const NEWEST_PROTOCOL = protocolVersion(3, 2);

export interface Startup {
  readonly kind: 'startup';
  /** The version that both sides speak from here on. */
  readonly version: number;
  /** True when the client must be told `version` and `unknown_options` in NegotiateProtocolVersion. */
  readonly negotiate: boolean;
  /** Protocol options (`_pq_.…`), of which we know none. */
  readonly unknown_options: readonly string[];
  /** In the client's order; of a name given twice the last counts, as in Postgres. */
  readonly parameters: ReadonlyMap<string, string>;
}

export type FirstPacket =
  | Startup
  | { readonly kind: 'tls' }
  | { readonly kind: 'ssl_request' }
  | { readonly kind: 'gss_request' }
  | { readonly kind: 'cancel'; readonly key: BackendKey };

/**
 * The packet at the start of a connection, or after the answer to an SSLRequest or GSSENCRequest; undefined while it is
 * incomplete. A direct TLS handshake takes no bytes, so that TLS can read them. Throws a ProtocolError for anything else.
 */
export function takeFirstPacket(buffer: Buffer, limit_bytes: number): Taken<FirstPacket> | undefined {
  if (buffer.length === 0) return undefined;
  if (buffer[0] === TLS_HANDSHAKE_BYTE) return { value: { kind: 'tls' }, bytes: 0 };
  if (buffer.length < 4) return undefined;
  const length = buffer.readInt32BE(0);
  if (length < 8 || length > limit_bytes) throw new ProtocolError('invalid length of startup packet');
  if (buffer.length < length) return undefined;
  return { value: parseFirstPacket(buffer.subarray(4, length)), bytes: length };
}

function parseFirstPacket(packet: Buffer): FirstPacket {
  const code = packet.readInt32BE(0);
  if (code === SSL_REQUEST_CODE || code === GSS_REQUEST_CODE) {
    if (packet.length !== 4) throw new ProtocolError('invalid length of encryption request');
    return { kind: code === SSL_REQUEST_CODE ? 'ssl_request' : 'gss_request' };
  }
  if (code === CANCEL_REQUEST_CODE) {
    if (packet.length < 9 || packet.length > 8 + CANCEL_SECRET_BYTES_MAX) {
      throw new ProtocolError('invalid length of cancel request');
    }
    return { kind: 'cancel', key: { process_id: packet.readInt32BE(4), secret: Buffer.from(packet.subarray(8)) } };
  }
  const major = code >>> 16;
  if (major !== 3) {
    throw new ProtocolError(
      `unsupported frontend protocol ${major}.${code & 0xffff}: server supports 3.0 to 3.2`,
      '0A000',
    );
  }
  return parseStartup(code, packet.subarray(4));
}

function parseStartup(requested: number, body: Buffer): Startup {
  const parameters = new Map<string, string>();
  const unknown_options: string[] = [];
  let offset = 0;
  for (;;) {
    const name = takeCstring(body, offset, 'startup packet');
    offset += name.bytes;
    if (name.value === '') break;
    const value = takeCstring(body, offset, 'startup packet');
    offset += value.bytes;
    if (name.value.startsWith('_pq_.')) unknown_options.push(name.value);
    else parameters.set(name.value, value.value);
  }
  if (offset !== body.length) {
    throw new ProtocolError('invalid startup packet layout: expected terminator as last byte');
  }
  const version = Math.min(requested, NEWEST_PROTOCOL);
  const negotiate = requested > NEWEST_PROTOCOL || unknown_options.length > 0;
  return { kind: 'startup', version, negotiate, unknown_options, parameters };
}
