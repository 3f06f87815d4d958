import { statfs } from 'node:fs/promises';
import { CoppiceError } from '../../domain/errors.ts';
import type { PoolState } from './contract.ts';

const RESERVE_BYTES_MAX = 5 * 1024 ** 3;

/** The reserve of a pool where nobody chose another: a twentieth, and at most 5 GiB. */
export const defaultReserveBytes = (total_bytes: number): number =>
  Math.min(RESERVE_BYTES_MAX, Math.floor(total_bytes / 20));

/** What the filesystem below `path` has, in bytes. */
export async function poolState(path: string, reserve_bytes: number): Promise<PoolState> {
  const { bsize, blocks, bavail } = await statfs(path);
  return { path, total_bytes: blocks * bsize, free_bytes: bavail * bsize, reserve_bytes };
}

/** Throws `storage_full` when making something of `needed_bytes` would leave less than the reserve. */
export async function refuseBelowReserve(path: string, reserve_bytes: number, needed_bytes: number): Promise<void> {
  const { free_bytes } = await poolState(path, reserve_bytes);
  if (free_bytes - needed_bytes < reserve_bytes) throw storageFull(free_bytes, reserve_bytes);
}

/** `storage_full` in place of an error that says that the disk is full; any other error as it is. */
export async function namingFullDisk(error: unknown, path: string, reserve_bytes: number): Promise<unknown> {
  if (!saysFull(error)) return error;
  const { free_bytes } = await poolState(path, reserve_bytes);
  return storageFull(free_bytes, reserve_bytes, error);
}

function storageFull(free_bytes: number, reserve_bytes: number, cause?: unknown): CoppiceError {
  return new CoppiceError('storage_full', { noun: 'volume', free_bytes, reserve_bytes }, { cause });
}

/** Programs that `fill` and `prepare` run tell it only in words. */
function saysFull(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, message, cause } = error as NodeJS.ErrnoException;
  if (code === 'ENOSPC' || code === 'EDQUOT' || /no space left on device|disk quota exceeded/i.test(message))
    return true;
  return saysFull(cause);
}
