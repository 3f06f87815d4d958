import { open, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { StartError } from './start-error.ts';

const FILE = 'unfinished-restore';

/** A restore into a data directory that has begun. */
interface UnfinishedRestore {
  readonly backup_id: string;
  readonly place: string;
}

/** What a data directory is becoming; undefined when it is nobody's, or whole. */
export async function readUnfinishedRestore(directory: string): Promise<UnfinishedRestore | undefined> {
  const text = await readFile(join(directory, FILE), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return undefined;
  });
  return text === undefined ? undefined : JSON.parse(text);
}

/** The directory is nothing but half a restore from now on. */
export async function markUnfinishedRestore(directory: string, restore: UnfinishedRestore): Promise<void> {
  const unfinished = join(directory, `${FILE}.new`);
  await rm(unfinished, { force: true });
  const file = await open(unfinished, 'wx', 0o600);
  try {
    await file.writeFile(`${JSON.stringify(restore)}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(unfinished, join(directory, FILE));
  await syncDirectory(directory);
}

/** The restore is whole. */
export async function forgetUnfinishedRestore(directory: string): Promise<void> {
  await rm(join(directory, FILE), { force: true });
  await syncDirectory(directory);
}

/** Throws StartError where a restore was begun and not ended. */
export async function refuseUnfinishedRestore(directory: string): Promise<void> {
  const restore = await readUnfinishedRestore(directory);
  if (!restore) return;
  throw new StartError(
    `the data directory ${directory} holds half of backup ${restore.backup_id}: run coppice restore ${restore.place} --backup ${restore.backup_id} again, or empty the directory`,
  );
}

async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
