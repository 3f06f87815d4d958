import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { TreeSelection } from './clone-tree.ts';
import { walk } from './walk.ts';

export interface TrimTree extends TreeSelection {
  readonly path: string;
}

/** Takes out of a whole snapshot, which nobody else can enter, what a clone leaves out; refuses what a clone refuses. */
export function trimTree({ path, ...selection }: TrimTree, checkpoint: () => void): void {
  const empty = new Set(selection.empty_directories);
  const omitted = new Set(selection.omit_files);
  walk(path, {
    checkpoint,
    omits: (entry) => {
      if (!omitted.has(entry.path)) return false;
      rmSync(join(entry.directory.path, entry.name), { recursive: true, force: true });
      return true;
    },
    directory: (entry, opened) => {
      if (!empty.has(entry.path)) return true;
      for (const name of readdirSync(opened.path)) rmSync(join(opened.path, name), { recursive: true, force: true });
      return false;
    },
    file: () => {},
  });
  // After the walk no link is left that this could follow.
  for (const directory of empty) mkdirSync(join(path, directory), { recursive: true, mode: 0o700 });
}
