import { createCipheriv, createDecipheriv, createHash, createHmac, randomBytes, randomInt } from 'node:crypto';

const PASSWORD_ALPHABET = 'ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789';

/** A role's password: URL-safe, about 93 bits. */
export function newRolePassword(): string {
  return `npg_${Array.from({ length: 16 }, () => PASSWORD_ALPHABET[randomInt(PASSWORD_ALPHABET.length)]).join('')}`;
}

/** An API key's secret: 256 random bits. Only its hash is kept. */
export const newApiKey = (): string => `napi_${randomBytes(32).toString('hex')}`;

/** SHA-256; a slow hash would add nothing, since keys are random and not chosen by people. */
export const hashApiKey = (secret: string): Buffer => createHash('sha256').update(secret).digest();

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Encrypts what must be shown again (role passwords) under the master key, which is never in the database. */
export class Vault {
  readonly #key: Buffer;

  /** @param key 32 bytes */
  constructor(key: Buffer) {
    if (key.length !== 32) throw new Error(`the master key must be 32 bytes, not ${key.length}`);
    this.#key = key;
  }

  /** 32 bytes that are always the same for a purpose, and tell nothing of the key. */
  derive(purpose: string): Buffer {
    return createHmac('sha256', this.#key).update(purpose).digest();
  }

  /** AES-256-GCM: nonce, tag, ciphertext. `context` is authenticated, so that a sealed text cannot be moved to another row. */
  seal(text: string, context: string): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce).setAAD(Buffer.from(context));
    const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
    return Buffer.concat([nonce, cipher.getAuthTag(), body]);
  }

  /** Throws when the text was sealed under another key or context, or was changed. */
  open(sealed: Buffer, context: string): string {
    const nonce = sealed.subarray(0, NONCE_BYTES);
    const tag = sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES);
    const decipher = createDecipheriv('aes-256-gcm', this.#key, nonce).setAAD(Buffer.from(context)).setAuthTag(tag);
    return decipher.update(sealed.subarray(NONCE_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8');
  }
}
