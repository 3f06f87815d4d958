import { chmod, mkdir, open, readdir, rename, rm, stat, statfs, symlink } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { CommandError, runCommand } from './command.ts';
import { syncDirectory } from './durable.ts';
import { volumesDirectory } from './layout.ts';
import { SECTOR_BYTES } from './loop-device.ts';
import { ensurePoolMounted, type PoolFilesystem, poolPaths, poolStatus, requireRoot } from './pool.ts';
import { PoolError } from './pool-error.ts';
import { plainStorageRoot } from './storage-root.ts';

/** mkfs.xfs refuses less. */
const SIZE_BYTES_MIN = 300 * 1024 * 1024;
/** What must stay free beside the pool. */
const MARGIN_BYTES = 256 * 1024 * 1024;
const TIMEOUT_MS = 600_000;

/** The package, and how the filesystem is made. A second copy of the metadata of Btrfs would lie in the same file. */
const MAKE: Readonly<Record<PoolFilesystem, readonly [string, ...string[]]>> = {
  xfs: ['xfsprogs', '-q', '-m', 'reflink=1', '-s', `size=${SECTOR_BYTES}`],
  btrfs: ['btrfs-progs', '-q', '--metadata', 'single', '--sectorsize', String(SECTOR_BYTES)],
};

export interface PoolOptions {
  readonly data_directory: string;
  readonly size_bytes: number;
  readonly filesystem: PoolFilesystem;
  /** File that will hold the pool, where that is not `pool/pool.<filesystem>` in the data directory. */
  readonly image?: string;
}

/** Makes a pool and mounts it; returns where. The space is taken at once, so that the pool never finds the disk full. */
export async function createPool({ data_directory, size_bytes, filesystem, image }: PoolOptions): Promise<string> {
  requireRoot('create a pool');
  const paths = poolPaths(data_directory, filesystem);
  const file = resolve(image ?? paths.image);
  if (!(size_bytes >= SIZE_BYTES_MIN)) {
    throw new PoolError(`a pool needs at least ${inUnits(SIZE_BYTES_MIN)}; ${inUnits(size_bytes)} is too small`);
  }
  const there = (await poolStatus(data_directory))?.image ?? ((await exists(file)) ? file : undefined);
  if (there) throw new PoolError(`there is a pool already: ${there}`);
  await refuseStoredVolumes(plainStorageRoot(data_directory));
  await mkdir(paths.directory, { recursive: true });
  await chmod(paths.directory, 0o711);
  await refuseFullDisk(dirname(file), size_bytes);
  if (file !== resolve(paths.image)) {
    // Dangling until the file gets its name, which is as good as no pool.
    await rm(paths.image, { force: true });
    await symlink(file, paths.image);
  }
  await makeImage(file, size_bytes, filesystem);
  await syncDirectory(paths.directory);
  const mount = await ensurePoolMounted(data_directory);
  if (!mount) throw new PoolError(`the pool ${file} vanished while it was created`);
  return mount;
}

async function makeImage(file: string, size_bytes: number, filesystem: PoolFilesystem): Promise<void> {
  const partial = `${file}.partial`;
  await rm(partial, { force: true });
  try {
    await (await open(partial, 'wx', 0o600)).close();
    await installedCommand('fallocate', ['--length', String(size_bytes), partial], 'util-linux');
    const [from, ...make] = MAKE[filesystem];
    await installedCommand(`mkfs.${filesystem}`, [...make, partial], from);
    const handle = await open(partial, 'r');
    await handle.sync().finally(() => handle.close());
    await rename(partial, file);
    await syncDirectory(dirname(file));
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
}

async function installedCommand(command: string, args: readonly string[], from: string): Promise<void> {
  try {
    await runCommand(command, args, { timeout_ms: TIMEOUT_MS });
  } catch (error) {
    const missing = error instanceof CommandError && error.code === 'ENOENT';
    throw missing ? new PoolError(`"${command}" is missing: install the package ${from}`, { cause: error }) : error;
  }
}

async function refuseFullDisk(directory: string, size_bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(directory);
  const free_bytes = bavail * bsize;
  if (free_bytes < size_bytes + MARGIN_BYTES) {
    throw new PoolError(
      `${directory} has ${inUnits(free_bytes)} free; a pool of ${inUnits(size_bytes)} needs ${inUnits(size_bytes + MARGIN_BYTES)}`,
    );
  }
}

/** Volumes that were made without a pool would be out of sight with one. */
async function refuseStoredVolumes(root: string): Promise<void> {
  const directory = volumesDirectory(root);
  const names = (await exists(directory)) ? await readdir(directory) : [];
  if (names.length > 0) {
    throw new PoolError(`${directory} holds ${names.length} volumes already: create the pool before the first project`);
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return false;
      throw error;
    },
  );
}

/** For people. */
function inUnits(bytes: number): string {
  if (bytes < 1024 ** 2) return `${bytes} bytes`;
  return bytes < 1024 ** 3 ? `${Math.floor(bytes / 1024 ** 2)} MiB` : `${(bytes / 1024 ** 3).toFixed(1)} GiB`;
}
