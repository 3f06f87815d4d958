import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, realpath, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);

export type FilesystemKind = 'xfs' | 'btrfs' | 'ext4' | 'tmpfs';

/** A filesystem of its own, in a sparse file below the temporary directory (or in memory), as root. */
export interface TestFilesystem {
  /** Where it is mounted; others may pass. */
  readonly path: string;
  /** The file that holds it; none for tmpfs. */
  readonly image: string;
  /** A copy of what is on the disk at this moment: what a machine would find after losing power. */
  copyImage(): Promise<string>;
  /** Unmounts, then mounts another image in its place. */
  replaceBy(image: string): Promise<void>;
  remove(): Promise<void>;
}

/** Why this process cannot mount; false when it can. For the `skip` of a test. */
export const cannotMount: string | false =
  process.getuid?.() === 0 && process.platform === 'linux' ? false : 'mounting a filesystem takes root on Linux';

const MKFS: Readonly<Record<Exclude<FilesystemKind, 'tmpfs'>, readonly string[]>> = {
  xfs: ['mkfs.xfs', '-q', '-f', '-m', 'reflink=1'],
  btrfs: ['mkfs.btrfs', '-q', '-f'],
  ext4: ['mkfs.ext4', '-q', '-F', '-m', '0'],
};

/** Runs a system tool; returns what it prints. */
export async function system(command: string, ...args: string[]): Promise<string> {
  const PATH = `${process.env.PATH}:/usr/sbin:/sbin`;
  return (await execute(command, args, { env: { ...process.env, PATH, LC_ALL: 'C' } })).stdout;
}

/** @param at where to mount it; a directory that is made for it when left out */
export async function mountFilesystem(kind: FilesystemKind, size_bytes: number, at?: string): Promise<TestFilesystem> {
  const directory = await realpath(await mkdtemp(join(tmpdir(), 'coppice-filesystem-')));
  const path = at ?? join(directory, 'mount');
  const image = join(directory, 'image');
  await system('chmod', '0711', directory);
  await mkdir(path);
  let device: string | undefined;

  async function mount(file: string): Promise<void> {
    if (kind === 'tmpfs') {
      await system('mount', '-t', 'tmpfs', '-o', `size=${size_bytes},mode=0755`, 'coppice-test', path);
      return;
    }
    device = (await system('losetup', '--find', '--show', file)).trim();
    await system('losetup', '--direct-io=on', device).catch(() => '');
    await system('mount', '-t', kind, '-o', 'nodev,nosuid', device, path);
    await system('chmod', '0755', path);
  }

  async function unmount(): Promise<void> {
    await system('umount', path);
    if (device) await system('losetup', '--detach', device);
    device = undefined;
  }

  async function remove(): Promise<void> {
    await unmount();
    await rm(directory, { recursive: true, force: true });
  }

  try {
    if (kind !== 'tmpfs') {
      await writeFile(image, '');
      await truncate(image, size_bytes);
      await system(...(MKFS[kind] as [string, ...string[]]), image);
    }
    await mount(image);
  } catch (error) {
    if (device) await system('losetup', '--detach', device).catch(() => '');
    await rm(directory, { recursive: true, force: true });
    throw error;
  }
  return {
    path,
    image,
    remove,
    copyImage: async () => {
      const copy = join(directory, 'copy');
      await system('cp', '--sparse=always', image, copy);
      return copy;
    },
    replaceBy: async (other) => {
      await unmount();
      await mount(other);
    },
  };
}
