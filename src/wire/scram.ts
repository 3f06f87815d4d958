import { createHmac, hash } from 'node:crypto';

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

export const hmac = (key: Buffer, text: string | Buffer): Buffer => createHmac('sha256', key).update(text).digest();
export const sha256 = (bytes: Buffer): Buffer => hash('sha256', bytes, 'buffer');

export function xor(left: Buffer, right: Buffer): Buffer {
  const result = Buffer.allocUnsafe(left.length);
  for (let index = 0; index < left.length; index++) result[index] = left[index]! ^ right[index]!;
  return result;
}
