import { constants, copyFile, mkdir, readdir, rm } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { basename, dirname, join } from 'node:path';
import type { Settings } from '../domain/settings.ts';
import type { ObjectStore } from '../drivers/objects/contract.ts';
import { fetchArchived, holdsTimelines } from '../engine/backup/archived-timelines.ts';
import { fetchTimelines, planRestore, type RestoreTarget } from '../engine/backup/fetch-timelines.ts';
import { getManifest, listBackups, type Manifest } from '../engine/backup/manifest.ts';
import { type Distribution, ensureDistributions } from '../postgres/distributions.ts';
import { checkMigrations, StoreVersionError } from '../store/migrate.ts';
import { createLogger } from '../watch/logger.ts';
import { masterKeyCheck } from './backup-key-check.ts';
import { type DataDirectory, openDataDirectory, refuseUsedDirectory } from './data-directory.ts';
import { objectsOf, openObjects } from './open-objects.ts';
import { archiveOf, computeDriverOf, storageOf } from './parts.ts';
import { restoreStore } from './restore-store.ts';
import { StartError } from './start-error.ts';
import { isTemplate } from './templates.ts';
import { forgetUnfinishedRestore, markUnfinishedRestore, readUnfinishedRestore } from './unfinished-restore.ts';

/** What may be in a data directory that is empty: what `pool create` makes, and what file systems do. */
const OF_AN_EMPTY_DIRECTORY = ['directory-id', 'pool', 'lost+found'];

interface RestoreWork {
  readonly settings: Settings;
  readonly directory: DataDirectory;
  readonly objects: ObjectStore;
  readonly manifest: Manifest;
  /** Where the master key is. */
  readonly key_file: string;
  readonly progress: (text: string) => void;
}

/**
 * Makes an empty data directory what a backup holds. Until it is whole, `up` refuses it; killed, or failed, it is run again
 * and goes on. Throws StartError for what a person can do something about, and ObjectError that names what is damaged.
 */
export async function restore(
  settings: Settings,
  options: { place: string; backup?: string; master_key_file?: string; progress: (text: string) => void },
): Promise<{ id: string; began_at: Date; projects: number; branches: number; data_directory: string }> {
  const { data_dir } = settings;
  const objects = await openObjects(options.place, settings);
  const begun = await readUnfinishedRestore(data_dir);
  const id = options.backup ?? begun?.backup_id ?? (await listBackups(objects)).at(-1);
  if (!id) throw new StartError(`there are no backups in ${objects.place}`);
  const manifest = await getManifest(objects, id);
  await checkMigrations(manifest.dump.migrations).catch((error) => {
    if (!(error instanceof StoreVersionError)) throw error;
    throw new StartError(
      `backup ${id} was made by Coppice ${manifest.version}: restore it with that version, or a newer one`,
    );
  });
  const key_file = options.master_key_file ?? settings.master_key_file;
  if ((await masterKeyCheck(key_file)) !== manifest.master_key_check) {
    throw new StartError(`${key_file} is not the master key of the installation that backup ${id} was made of`);
  }
  await refuseUsedDirectory(data_dir);
  if (begun && begun.backup_id !== id) {
    throw new StartError(
      `${data_dir} holds half of backup ${begun.backup_id}: restore that one, or empty the directory`,
    );
  }
  if (!begun) {
    await refuseOccupied(settings);
    await refuseOccupiedObjects(settings, manifest);
  }
  const directory = await openDataDirectory(data_dir);
  try {
    await restoreInto({ settings, directory, objects, manifest, key_file, progress: options.progress });
  } finally {
    await directory.release();
  }
  const { began_at, projects, branches } = manifest;
  return { id, began_at: new Date(began_at), projects, branches, data_directory: directory.path };
}

async function refuseOccupied({ data_dir, master_key_file }: Settings): Promise<void> {
  const names = await readdir(data_dir).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return [];
  });
  const own_key = dirname(master_key_file) === data_dir ? [basename(master_key_file)] : [];
  const other = names.find((name) => ![...OF_AN_EMPTY_DIRECTORY, ...own_key].includes(name));
  if (other) throw new StartError(`${data_dir} is not empty (it holds ${other}): restore into an empty data directory`);
}

/** What is archived belongs to one installation, which removes what it does not know. */
async function refuseOccupiedObjects(settings: Settings, { id, archived }: Manifest): Promise<void> {
  const own = await objectsOf(settings);
  if (!own && archived.length > 0) {
    throw new StartError(`backup ${id} holds archived branches: set COPPICE_OBJECTS to an empty place for them`);
  }
  if (!own || !(await holdsTimelines(own))) return;
  throw new StartError(`${own.place} holds branches of an installation: set COPPICE_OBJECTS to a place of its own`);
}

async function restoreInto(work: RestoreWork): Promise<void> {
  const { settings, directory, objects, manifest, progress } = work;
  const logger = createLogger({ level: settings.log_level });
  await markUnfinishedRestore(directory.path, { backup_id: manifest.id, place: objects.place });
  progress('seeing to Postgres in the data directory');
  const distributions = await ensureDistributions(directory.path);
  refuseUnknownDistributions(manifest, distributions);
  const { driver: storage } = await storageOf(directory.path, settings);
  await refuseForeignVolumes(await storage.list(), manifest, storage.name);
  const target: RestoreTarget = {
    storage,
    objects,
    archive: await archiveOf(directory.path),
    compute: computeDriverOf(directory.path, logger.child({ room: 'compute' })),
    distributions: new Map(distributions.map(({ id, root, major }) => [id, { id, root, major, has_scheduler: false }])),
    os_user: userInfo().username,
    scratch: join(directory.path, 'restoring'),
    progress,
  };
  progress('reading what the backup is made of');
  const plan = await planRestore(target, manifest);
  const { free_bytes, reserve_bytes } = await storage.pool();
  if (free_bytes - reserve_bytes < plan.bytes) {
    throw new StartError(
      `backup ${manifest.id} needs ${gib(plan.bytes)} GiB, and ${gib(Math.max(0, free_bytes - reserve_bytes))} GiB are free beside the reserve: make room, or a larger pool`,
    );
  }
  await keepMasterKey(work);
  await fetchTimelines(target, manifest, plan);
  const own = await objectsOf(settings);
  for (const archived of own ? manifest.archived : []) await fetchArchived(own!, objects, archived);
  progress("loading Coppice's own database");
  await restoreStore({ settings, directory, distributions, objects, manifest, logger, driver: storage.name });
  await rm(target.scratch, { recursive: true, force: true });
  await forgetUnfinishedRestore(directory.path);
}

const gib = (bytes: number): string => (bytes / 1024 ** 3).toFixed(2);

/** A volume is started by the very build that it was made by. */
function refuseUnknownDistributions({ id, timelines }: Manifest, here: readonly Distribution[]): void {
  const known = new Set(here.map((distribution) => distribution.id));
  const missing = new Set(timelines.map(({ distribution_id }) => distribution_id).filter((one) => !known.has(one)));
  if (missing.size === 0) return;
  throw new StartError(`backup ${id} needs Postgres ${[...missing].join(', ')}, which is not here: install it first`);
}

/** A pool may have been used before. */
function refuseForeignVolumes(ids: readonly string[], { timelines }: Manifest, driver: string): void {
  const own = new Set(timelines.flatMap(({ id, volumes }) => [id, ...volumes]));
  const foreign = ids.find((id) => !isTemplate(id) && !own.has(id));
  if (foreign) throw new StartError(`the ${driver} storage holds volume ${foreign} already: restore into an empty one`);
}

/** The key that was given is where `up` looks for it. */
async function keepMasterKey({ settings: { master_key_file }, key_file }: RestoreWork): Promise<void> {
  if (key_file === master_key_file) return;
  await mkdir(dirname(master_key_file), { recursive: true });
  await copyFile(key_file, master_key_file, constants.COPYFILE_EXCL).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
    if ((await masterKeyCheck(master_key_file)) === (await masterKeyCheck(key_file))) return;
    throw new StartError(`${master_key_file} holds another master key than ${key_file}: remove it first`);
  });
}
