import { access, constants } from 'node:fs/promises';

/** Why volumes cannot be copied below an existing directory; undefined when they can. */
export async function copyProblem(root: string): Promise<string | undefined> {
  try {
    await access(root, constants.R_OK | constants.W_OK | constants.X_OK);
    return undefined;
  } catch (error) {
    return `${root} cannot be written (${(error as NodeJS.ErrnoException).code})`;
  }
}
