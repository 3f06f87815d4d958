import { access } from 'node:fs/promises';
import { openVault } from './master-key.ts';
import { StartError } from './start-error.ts';

/**
 * Tells whether a backup's passwords can be opened by the key of a file, and nothing of the key. Unlike a start it makes
 * no key. Throws StartError.
 */
export async function masterKeyCheck(file: string): Promise<string> {
  await access(file).catch(({ code }: NodeJS.ErrnoException) => {
    throw new StartError(`the master key ${file} cannot be read (${code}): name it in COPPICE_MASTER_KEY_FILE`);
  });
  return (await openVault(file)).derive('check of backups').toString('hex');
}
