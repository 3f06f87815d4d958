import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { ScramVerifier } from '../domain/scram-verifier.ts';
import { ProtocolError } from './message.ts';
import {
  hmac,
  KEY_BYTES,
  NONCE_RANDOM_BYTES,
  SCRAM_SHA_256,
  SCRAM_SHA_256_PLUS,
  type ScramKeys,
  sha256,
  xor,
} from './scram.ts';

/** The side of SCRAM that knows only the verifier. Refusals and their codes are Postgres's own. */

export interface ScramServerOptions {
  /** The mechanism that the client chose. */
  readonly mechanism: string;
  readonly verifier: ScramVerifier;
  /** Hash of the certificate served on this connection; undefined where channel binding is not offered. */
  readonly channelBinding: Buffer | undefined;
  /** Only for tests with known vectors. */
  readonly nonce?: string;
}

export interface ScramExchange {
  readonly serverFirst: string;
  /** Undefined when the proof is wrong; throws a ProtocolError when the message is malformed. */
  finish(clientFinal: string): { keys: ScramKeys; serverFinal: string } | undefined;
}

const CLIENT_FIRST = /^(([nyp])(?:=([A-Za-z0-9.-]+))?,(a=[^,]*)?,)(n=[^,]*,r=([\x21-\x2b\x2d-\x7e]+)(?:,.*)?)$/s;
const CLIENT_FINAL = /^(c=([A-Za-z0-9+/=]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]=[^,]*)*),p=([A-Za-z0-9+/=]+)$/;

/** The mechanisms to offer, the preferred one first. */
export function scramMechanisms(channelBinding: Buffer | undefined): readonly string[] {
  return channelBinding ? [SCRAM_SHA_256_PLUS, SCRAM_SHA_256] : [SCRAM_SHA_256];
}

/** Answers a client-first-message. The user name in it is ignored, as in Postgres: the startup packet named the role. */
export function startScram(clientFirst: string, options: ScramServerOptions): ScramExchange {
  const { verifier } = options;
  const { gs2Header, bare, clientNonce, binding } = parseClientFirst(clientFirst, options);
  const nonce = clientNonce + (options.nonce ?? randomBytes(NONCE_RANDOM_BYTES).toString('base64'));
  const serverFirst = `r=${nonce},s=${verifier.salt.toString('base64')},i=${verifier.iterations}`;
  const expectedBinding = Buffer.concat([Buffer.from(gs2Header), binding]).toString('base64');

  return {
    serverFirst,
    finish(clientFinal) {
      const match = CLIENT_FINAL.exec(clientFinal);
      if (!match) throw new ProtocolError('malformed SCRAM message');
      const [withoutProof, receivedBinding, receivedNonce, proofText] = match.slice(1) as [
        string,
        string,
        string,
        string,
      ];
      if (receivedBinding !== expectedBinding) throw new ProtocolError('SCRAM channel binding check failed', '28000');
      if (receivedNonce !== nonce) throw new ProtocolError('invalid SCRAM response: nonce does not match');
      const proof = Buffer.from(proofText, 'base64');
      if (proof.length !== KEY_BYTES) throw new ProtocolError('malformed SCRAM message: invalid proof');
      const authMessage = `${bare},${serverFirst},${withoutProof}`;
      const clientKey = xor(proof, hmac(verifier.storedKey, authMessage));
      if (!timingSafeEqual(sha256(clientKey), verifier.storedKey)) return undefined;
      return {
        keys: { clientKey, serverKey: verifier.serverKey },
        serverFinal: `v=${hmac(verifier.serverKey, authMessage).toString('base64')}`,
      };
    },
  };
}

function parseClientFirst(clientFirst: string, { mechanism, channelBinding }: ScramServerOptions) {
  if (!scramMechanisms(channelBinding).includes(mechanism)) {
    throw new ProtocolError('client selected an invalid SASL authentication mechanism');
  }
  const match = CLIENT_FIRST.exec(clientFirst);
  if (!match) throw new ProtocolError('malformed SCRAM message');
  const [gs2Header, flag, bindingType, authzid, bare, clientNonce] = match.slice(1) as [
    string,
    string,
    string | undefined,
    string | undefined,
    string,
    string,
  ];
  if (authzid !== undefined)
    throw new ProtocolError('client uses authorization identity, but it is not supported', '0A000');
  const bound = flag === 'p';
  if (bound !== (bindingType !== undefined) || bound !== (mechanism === SCRAM_SHA_256_PLUS)) {
    throw new ProtocolError('malformed SCRAM message: channel binding does not fit the mechanism');
  }
  if (flag === 'y' && channelBinding) {
    throw new ProtocolError(
      'SCRAM channel binding negotiation error: the client thinks that the server does not support channel binding, but it does',
      '28000',
    );
  }
  if (bound && bindingType !== 'tls-server-end-point') {
    throw new ProtocolError(`unsupported SCRAM channel-binding type "${bindingType}"`);
  }
  return { gs2Header, bare, clientNonce, binding: bound ? channelBinding! : Buffer.alloc(0) };
}

/**
 * A verifier for somebody who does not exist: the same on every attempt, so that the exchange looks like one with a
 * wrong password. No password fits it.
 * @param secret must stay the same over restarts, or the changing salt tells that nobody is there
 */
export function mockVerifier(secret: Buffer, endpoint: string, role: string): ScramVerifier {
  const derive = (purpose: string) => hmac(secret, JSON.stringify([purpose, endpoint, role]));
  return {
    iterations: 4096,
    salt: derive('salt').subarray(0, 16),
    storedKey: derive('stored key'),
    serverKey: derive('server key'),
  };
}
