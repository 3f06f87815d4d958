import { constants } from 'node:fs';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Why files below an existing directory cannot share blocks; undefined when they can. Tries it. */
export async function reflinkProblem(root: string): Promise<string | undefined> {
  const directory = await mkdtemp(join(root, '.probe-'));
  try {
    await writeFile(join(directory, 'source'), Buffer.alloc(64 * 1024, 'probe'));
    await copyFile(join(directory, 'source'), join(directory, 'target'), constants.COPYFILE_FICLONE_FORCE);
    return undefined;
  } catch (error) {
    return `files at ${root} cannot share blocks (${(error as NodeJS.ErrnoException).code})`;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
