import { statfs } from 'node:fs/promises';

export type FilesystemType = 'xfs' | 'btrfs' | 'other';

/** Magic numbers of statfs(2), from linux/magic.h. */
const TYPES: ReadonlyMap<number, FilesystemType> = new Map([
  [0x58465342, 'xfs'],
  [0x9123683e, 'btrfs'],
]);

/** Which filesystem holds `path`, as far as it matters here. */
export async function filesystemType(path: string): Promise<FilesystemType> {
  if (process.platform !== 'linux') return 'other';
  return TYPES.get((await statfs(path)).type) ?? 'other';
}
