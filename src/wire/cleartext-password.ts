import { pbkdf2, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import type { ScramVerifier } from '../domain/scram-verifier.ts';
import { passwordForms } from './saslprep.ts';
import { hmac, KEY_BYTES, type ScramKeys, sha256 } from './scram.ts';

const derive = promisify(pbkdf2);

/** The keys that a password gives under a verifier; undefined when it does not fit. Runs in Node's thread pool. */
export async function keysFromPassword(password: string, verifier: ScramVerifier): Promise<ScramKeys | undefined> {
  for (const form of passwordForms(password)) {
    const salted = await derive(form, verifier.salt, verifier.iterations, KEY_BYTES, 'sha256');
    const clientKey = hmac(salted, 'Client Key');
    if (timingSafeEqual(sha256(clientKey), verifier.storedKey)) return { clientKey, serverKey: verifier.serverKey };
  }
  return undefined;
}
