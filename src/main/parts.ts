import { join } from 'node:path';
import type { Settings } from '../domain/settings.ts';
import type { ArchiveDriver } from '../drivers/archive/contract.ts';
import { createDirectoryArchive } from '../drivers/archive/directory/driver.ts';
import { createProcessDriver } from '../drivers/compute/process/driver.ts';
import type { ObjectStore } from '../drivers/objects/contract.ts';
import { ensurePoolMounted } from '../drivers/storage/pool.ts';
import { defaultReserveBytes, poolState } from '../drivers/storage/space.ts';
import { resolveStorageRoot } from '../drivers/storage/storage-root.ts';
import { ShippedArchive } from '../engine/shipping/shipped-archive.ts';
import type { Log } from '../watch/log-fields.ts';
import { type ChosenStorage, chooseStorage } from './choose-storage.ts';

export type ProcessDriver = ReturnType<typeof createProcessDriver>;

/** Where the compute driver of a data directory keeps what it must remember. */
export const computesDirectory = (dataDirectory: string): string => join(dataDirectory, 'computes');

/** The compute driver of a data directory. */
export function computeDriverOf(dataDirectory: string, logger: Log): ProcessDriver {
  return createProcessDriver({
    stateDir: computesDirectory(dataDirectory),
    runDir: join(dataDirectory, 'run'),
    logger,
  });
}

/**
 * The log of the volumes, beside them: a segment changes hands by a link. Where there is object storage it is there, too,
 * and whoever reads it finds it wherever it is.
 */
export async function archiveOf(dataDirectory: string, objects?: ObjectStore): Promise<ArchiveDriver> {
  return objects ? shippedArchiveOf(dataDirectory, objects) : localArchiveOf(dataDirectory);
}

/** The same, for whoever sends it to object storage. */
export async function shippedArchiveOf(dataDirectory: string, objects: ObjectStore): Promise<ShippedArchive> {
  const records_directory = join(await resolveStorageRoot(dataDirectory), 'archive-packs');
  return new ShippedArchive({ local: await localArchiveOf(dataDirectory), objects, records_directory });
}

async function localArchiveOf(dataDirectory: string): Promise<ArchiveDriver> {
  return createDirectoryArchive({ root: join(await resolveStorageRoot(dataDirectory), 'archive') });
}

/** The storage driver of a data directory, on its pool where there is one. */
export async function storageOf(dataDirectory: string, { storage }: Pick<Settings, 'storage'>): Promise<ChosenStorage> {
  const mount = await ensurePoolMounted(dataDirectory);
  const root = await resolveStorageRoot(dataDirectory);
  const { total_bytes } = await poolState(mount ?? dataDirectory, 0);
  const options = { root, reserve_bytes: defaultReserveBytes(total_bytes) };
  return chooseStorage(options, storage === 'auto' ? undefined : storage);
}
