import { chmod, mkdir, realpath, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { attachLoopDevice, detachLoopDevice, findLoopDevice } from './loop-device.ts';
import { mountDevice, mountedAt, unmount } from './mount.ts';
import { PoolError } from './pool-error.ts';

/** What a pool can be. */
const POOL_FILESYSTEMS = ['xfs', 'btrfs'] as const;
export type PoolFilesystem = (typeof POOL_FILESYSTEMS)[number];

/**
 * A pool is a filesystem in a file, for machines whose own filesystem cannot share blocks. The data directory names it:
 * `pool/pool.xfs` or `pool/pool.btrfs` is the file, or a link to it, and `pool/mount` is where it is mounted.
 */
export interface PoolPaths {
  readonly directory: string;
  readonly image: string;
  readonly mount: string;
}

export interface PoolStatus {
  readonly filesystem: PoolFilesystem;
  /** The file that holds the pool. */
  readonly image: string;
  readonly size_bytes: number;
  readonly mount: string;
  readonly mounted: boolean;
}

export function poolPaths(data_directory: string, filesystem: PoolFilesystem): PoolPaths {
  const directory = join(data_directory, 'pool');
  return { directory, image: join(directory, `pool.${filesystem}`), mount: join(directory, 'mount') };
}

/** What there is of a pool; undefined where none was created. Throws when something else is mounted in its place. */
export async function poolStatus(data_directory: string): Promise<PoolStatus | undefined> {
  const pool = await findPool(data_directory);
  return pool && { ...pool, mounted: await isMounted(pool.image, pool.mount) };
}

/**
 * Mounts the pool, if there is one, and returns where. Idempotent: finds the loop device and the mount that an earlier
 * call, even a killed one, has made.
 */
export async function ensurePoolMounted(data_directory: string): Promise<string | undefined> {
  const pool = await findPool(data_directory);
  if (!pool) return undefined;
  const { filesystem, image, mount } = pool;
  if (await isMounted(image, mount)) return mount;
  requireRoot('mount the pool');
  const found = await findLoopDevice(image);
  const device = found ?? (await attachLoopDevice(image));
  try {
    await mountDevice(device, filesystem, mount);
  } catch (error) {
    if (!found) await detachLoopDevice(device).catch(() => {});
    throw error;
  }
  // Owners of volumes pass through.
  await chmod(mount, 0o711);
  return mount;
}

/** The pool is not mounted and has no loop device. Throws while something in it is in use. */
export async function unmountPool(data_directory: string): Promise<void> {
  const pool = await findPool(data_directory);
  if (!pool) return;
  requireRoot('unmount the pool');
  if (await isMounted(pool.image, pool.mount)) await unmount(pool.mount);
  const device = await findLoopDevice(pool.image);
  if (device) await detachLoopDevice(device);
}

/** Throws unless the process may mount. */
export function requireRoot(purpose: string): void {
  if (process.getuid?.() !== 0) throw new PoolError(`only root can ${purpose}: run this as root`);
}

async function findPool(data_directory: string): Promise<Omit<PoolStatus, 'mounted'> | undefined> {
  for (const filesystem of POOL_FILESYSTEMS) {
    const { image, mount } = poolPaths(data_directory, filesystem);
    try {
      const { size: size_bytes } = await stat(image);
      await mkdir(mount, { recursive: true });
      // The kernel lists mounts and loop devices by their real paths.
      return { filesystem, image: await realpath(image), size_bytes, mount: await realpath(mount) };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  return undefined;
}

async function isMounted(image: string, mount: string): Promise<boolean> {
  const source = await mountedAt(mount);
  if (source === undefined) return false;
  if (source === (await findLoopDevice(image))) return true;
  throw new PoolError(
    `${mount} is the mount point of the pool ${image}, but ${source} is mounted there: unmount it first`,
  );
}
