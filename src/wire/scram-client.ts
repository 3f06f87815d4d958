import { randomBytes, timingSafeEqual } from 'node:crypto';
import { ProtocolError } from './message.ts';
import { hmac, NONCE_RANDOM_BYTES, type ScramKeys, sha256, xor } from './scram.ts';

const SERVER_FIRST = /^r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/=]+),i=([1-9]\d{0,8})(?:,.*)?$/s;
const SERVER_FINAL = /^v=([A-Za-z0-9+/=]+)(?:,.*)?$/s;

/** The side of SCRAM-SHA-256 that proves to know the password, with the keys instead of the password. */
export interface ScramClient {
  readonly clientFirst: string;
  /** The client-final-message. */
  respond(serverFirst: string): string;
  /** Throws when the server does not know the verifier. */
  verify(serverFinal: string): void;
}

export function scramClient(
  { clientKey, serverKey }: ScramKeys,
  { username = '', nonce = randomBytes(NONCE_RANDOM_BYTES).toString('base64') } = {},
): ScramClient {
  const bare = `n=${username},r=${nonce}`;
  let authMessage: string | undefined;
  return {
    clientFirst: `n,,${bare}`,
    respond(serverFirst) {
      const combined = SERVER_FIRST.exec(serverFirst)?.[1] ?? '';
      if (!combined.startsWith(nonce) || combined.length === nonce.length) {
        throw new ProtocolError('malformed SCRAM challenge');
      }
      const withoutProof = `c=biws,r=${combined}`;
      authMessage = `${bare},${serverFirst},${withoutProof}`;
      const proof = xor(clientKey, hmac(sha256(clientKey), authMessage));
      return `${withoutProof},p=${proof.toString('base64')}`;
    },
    verify(serverFinal) {
      const match = SERVER_FINAL.exec(serverFinal);
      if (!match || authMessage === undefined) throw new ProtocolError('malformed SCRAM server signature');
      const received = Buffer.from(match[1]!, 'base64');
      const expected = hmac(serverKey, authMessage);
      if (received.length !== expected.length || !timingSafeEqual(received, expected)) {
        throw new ProtocolError('incorrect SCRAM server signature');
      }
    },
  };
}
