import { pbkdf2, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import type { ScramVerifier } from '../domain/scram-verifier.ts';
import { passwordForms } from './saslprep.ts';
import { hmac, KEY_BYTES, type ScramKeys, sha256 } from './scram.ts';

const derive = promisify(pbkdf2);

/** How a password fits a verifier. */
export interface PasswordFit {
  /** The form of the password that does. */
  readonly form: string;
  /** What it was derived to. */
  readonly salted: Buffer;
  readonly keys: ScramKeys;
}

/** The keys that a password gives under a verifier; undefined when it does not fit. Runs in Node's thread pool. */
export async function keysFromPassword(
  password: string,
  verifier: ScramVerifier,
  onFit?: (fit: PasswordFit) => void,
): Promise<ScramKeys | undefined> {
  for (const form of passwordForms(password)) {
    const salted = await derive(form, verifier.salt, verifier.iterations, KEY_BYTES, 'sha256');
    const keys = keysFromSalted(salted, verifier);
    if (!keys) continue;
    onFit?.({ form, salted, keys });
    return keys;
  }
  return undefined;
}

/** The keys that the outcome of a derivation gives under a verifier; undefined when it does not fit. */
export function keysFromSalted(salted: Buffer, { storedKey, serverKey }: ScramVerifier): ScramKeys | undefined {
  const clientKey = hmac(salted, 'Client Key');
  return timingSafeEqual(sha256(clientKey), storedKey) ? { clientKey, serverKey } : undefined;
}
