import { createHash, createHmac, pbkdf2, randomBytes } from 'node:crypto';
import { promisify } from 'node:util';

/** What Postgres keeps of a password in `rolpassword` (RFC 5802, RFC 7677). All buffers are 32 bytes but the salt. */
export interface ScramVerifier {
  readonly iterations: number;
  readonly salt: Buffer;
  readonly storedKey: Buffer;
  readonly serverKey: Buffer;
}

const DEFAULT_ITERATIONS = 4096;
const derive = promisify(pbkdf2);

/** Makes a verifier for a password. The password is expected to be printable ASCII, so SASLprep leaves it as it is. */
export async function createVerifier(
  password: string,
  { salt = randomBytes(16), iterations = DEFAULT_ITERATIONS }: { salt?: Buffer; iterations?: number } = {},
): Promise<ScramVerifier> {
  const saltedPassword = await derive(password, salt, iterations, 32, 'sha256');
  const clientKey = createHmac('sha256', saltedPassword).update('Client Key').digest();
  return {
    iterations,
    salt,
    storedKey: createHash('sha256').update(clientKey).digest(),
    serverKey: createHmac('sha256', saltedPassword).update('Server Key').digest(),
  };
}

/** Postgres's text form: `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`. */
export function formatVerifier(verifier: ScramVerifier): string {
  const { iterations, salt, storedKey, serverKey } = verifier;
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${storedKey.toString('base64')}:${serverKey.toString('base64')}`;
}

/** Reads Postgres's text form; undefined for anything else (an md5 hash, an empty or a malformed text). */
export function parseVerifier(text: string): ScramVerifier | undefined {
  const match = /^SCRAM-SHA-256\$(\d{1,9}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]{44}):([A-Za-z0-9+/=]{44})$/.exec(text);
  if (!match) return undefined;
  const [iterations, salt, storedKey, serverKey] = match.slice(1) as [string, string, string, string];
  const verifier = {
    iterations: Number(iterations),
    salt: Buffer.from(salt, 'base64'),
    storedKey: Buffer.from(storedKey, 'base64'),
    serverKey: Buffer.from(serverKey, 'base64'),
  };
  const sound = verifier.iterations > 0 && verifier.storedKey.length === 32 && verifier.serverKey.length === 32;
  return sound ? verifier : undefined;
}
