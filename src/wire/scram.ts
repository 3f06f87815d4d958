import { hash } from 'node:crypto';

/** What both sides of SCRAM-SHA-256 share. Sources: RFC 5802, RFC 7677, RFC 5929 (tls-server-end-point). */

export const SCRAM_SHA_256 = 'SCRAM-SHA-256';
export const SCRAM_SHA_256_PLUS = 'SCRAM-SHA-256-PLUS';

export const KEY_BYTES = 32;
/** As long as Postgres's own: 18 random bytes in base64. */
export const NONCE_RANDOM_BYTES = 18;

/**
 * What a client's proof reveals, and what the server proves itself with: enough to log in to another server that holds
 * the same verifier. As secret as the password for that purpose.
 */
export interface ScramKeys {
  readonly clientKey: Buffer;
  readonly serverKey: Buffer;
}

const BLOCK_BYTES = 64;

/**
 * HMAC-SHA-256 (RFC 2104). Every login has several, each with a key of its own, and Node's makes an object of each key, which takes
 * six times as long as all of this.
 *
 * @param key of 64 bytes at most, as all keys of SCRAM are
 */
export function hmac(key: Buffer, text: string | Buffer): Buffer {
  if (key.length > BLOCK_BYTES) throw new RangeError(`a key of ${key.length} bytes`);
  const length = Buffer.byteLength(text);
  const inner = Buffer.allocUnsafe(BLOCK_BYTES + length);
  const outer = Buffer.allocUnsafe(BLOCK_BYTES + KEY_BYTES);
  for (let at = 0; at < BLOCK_BYTES; at++) {
    const byte = at < key.length ? key[at]! : 0;
    inner[at] = byte ^ 0x36;
    outer[at] = byte ^ 0x5c;
  }
  if (typeof text === 'string') inner.write(text, BLOCK_BYTES);
  else inner.set(text, BLOCK_BYTES);
  outer.set(sha256(inner), BLOCK_BYTES);
  return sha256(outer);
}

export const sha256 = (bytes: Buffer): Buffer => hash('sha256', bytes, 'buffer');

export function xor(left: Buffer, right: Buffer): Buffer {
  const result = Buffer.allocUnsafe(left.length);
  for (let index = 0; index < left.length; index++) result[index] = left[index]! ^ right[index]!;
  return result;
}
