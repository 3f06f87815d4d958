import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { CoppiceError } from './errors.ts';
import { LIMITS } from './limits.ts';

/** Of scrypt: 32 MiB and about a tenth of a second. Each hash carries its own, so that they can be raised. */
interface Cost {
  readonly N: number;
  readonly r: number;
  readonly p: number;
}
const COST: Cost = { N: 2 ** 15, r: 8, p: 3 };
const SALT_BYTES = 16;
const HASH_BYTES = 32;
/** So many passwords are hashed at once: it is what bounds the memory that strangers can make us take. */
const AT_ONCE = 2;

/** Why a text cannot be somebody's password; undefined when it can. */
export function passwordProblem(password: string): string | undefined {
  const length = [...password].length;
  if (length < LIMITS.password_characters_min) return `must have at least ${LIMITS.password_characters_min} characters`;
  if (length > LIMITS.password_characters_max) return `must have at most ${LIMITS.password_characters_max} characters`;
  return undefined;
}

/** `scrypt$<N>$<r>$<p>$<salt>$<hash>`, the last two in base64. Throws `unavailable` when too many wait already. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const hash = await derive(password, salt, COST);
  return ['scrypt', COST.N, COST.r, COST.p, salt.toString('base64'), hash.toString('base64')].join('$');
}

/** Whether that is the password. Throws as `hashPassword` does. */
export async function isPassword(password: string, stored: string): Promise<boolean> {
  const [scheme, N, r, p, salt = '', hash = ''] = stored.split('$');
  if (scheme !== 'scrypt') return false;
  const expected = Buffer.from(hash, 'base64');
  const found = await derive(password, Buffer.from(salt, 'base64'), { N: Number(N), r: Number(r), p: Number(p) });
  return expected.length === found.length && timingSafeEqual(expected, found);
}

/** Unicode has several ways to write a letter: the same password, whatever keyboard it was typed on. */
const derive = (password: string, salt: Buffer, cost: Cost): Promise<Buffer> =>
  inTurn(() => {
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
    const options = { ...cost, maxmem: 256 * cost.N * cost.r };
    scrypt(password.normalize('NFKC'), salt, HASH_BYTES, options, (error, key) =>
      error ? reject(error) : resolve(key),
    );
    return promise;
  });

let running = 0;
const waiting: (() => void)[] = [];

async function inTurn<T>(work: () => Promise<T>): Promise<T> {
  if (running < AT_ONCE) running += 1;
  else if (waiting.length >= LIMITS.passwords_waiting) throw new CoppiceError('unavailable');
  // Whoever is done hands over the place.
  else await new Promise<void>((resolve) => waiting.push(resolve));
  try {
    return await work();
  } finally {
    const next = waiting.shift();
    if (next) next();
    else running -= 1;
  }
}
