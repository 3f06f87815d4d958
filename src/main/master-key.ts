import { randomBytes } from 'node:crypto';
import { link, readFile, rm, writeFile } from 'node:fs/promises';
import { Vault } from '../domain/credentials.ts';
import { StartError } from './start-error.ts';

const KEY_BYTES = 32;

/** The vault of the master key file, which is made when it is missing. Throws StartError for a file that holds no key. */
export async function openVault(file: string): Promise<Vault> {
  const text = (await readKey(file)) ?? (await makeKey(file));
  const key = Buffer.from(text.trim(), 'hex');
  if (key.length !== KEY_BYTES) {
    throw new StartError(
      `${file} is not a master key: it must hold ${KEY_BYTES} bytes as ${KEY_BYTES * 2} hexadecimal digits`,
    );
  }
  return new Vault(key);
}

async function readKey(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    throw new StartError(`the master key ${file} cannot be read (${code})`);
  }
}

/** Whole or not at all: passwords sealed under a key that was lost half-written could never be opened. */
async function makeKey(file: string): Promise<string> {
  const text = `${randomBytes(KEY_BYTES).toString('hex')}\n`;
  const unfinished = `${file}.${process.pid}.unfinished`;
  try {
    await writeFile(unfinished, text, { mode: 0o600, flag: 'wx', flush: true });
    await link(unfinished, file);
    return text;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return readFile(file, 'utf8');
    throw new StartError(`the master key ${file} cannot be written (${code})`);
  } finally {
    await rm(unfinished, { force: true });
  }
}
