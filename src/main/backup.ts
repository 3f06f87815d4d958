import type { BackupCommands, BackupSummary } from '../cli/backup.ts';
import type { Settings } from '../domain/settings.ts';
import type { ObjectStore } from '../drivers/objects/contract.ts';
import { makeBackup } from '../engine/backup/make-backup.ts';
import { getManifest, listBackups, type Manifest } from '../engine/backup/manifest.ts';
import { withPlaceLease } from '../engine/backup/place-lease.ts';
import { sweep } from '../engine/backup/sweep.ts';
import { asOnlyBackup } from '../store/backup-requests.ts';
import type { Store } from '../store/connection.ts';
import { findPool } from '../store/counts.ts';
import { masterKeyCheck } from './backup-key-check.ts';
import type { StorageDriverName } from './choose-storage.ts';
import { readDirectoryId } from './data-directory.ts';
import { withStore } from './keys.ts';
import { objectsOf, openObjects } from './open-objects.ts';
import { archiveOf, storageOf } from './parts.ts';
import { StartError } from './start-error.ts';
import { VERSION } from './version.ts';

/** What `coppice backup` does with a place. */
export async function backupCommands(settings: Settings, place: string): Promise<BackupCommands> {
  const objects = await openObjects(place, settings);
  return {
    list: async () => {
      const summaries: BackupSummary[] = [];
      for (const id of await listBackups(objects)) summaries.push(summaryOf(await getManifest(objects, id)));
      return summaries;
    },
    make: async ({ keep, progress }) => {
      const master_key_check = await masterKeyCheck(settings.master_key_file);
      await objects.check();
      return withStore(settings, async ({ store }) => {
        const made = await asOnlyBackup(store, () =>
          make(settings, { store, objects, keep, progress, master_key_check }),
        );
        if (!made) throw new StartError('another backup of this installation is being made: wait for its end');
        return made;
      });
    },
  };
}

async function make(
  settings: Settings,
  work: {
    readonly store: Store;
    readonly objects: ObjectStore;
    readonly keep: number | undefined;
    readonly progress: (text: string) => void;
    readonly master_key_check: string;
  },
): ReturnType<BackupCommands['make']> {
  const { store, objects, keep, progress, master_key_check } = work;
  const { data_dir, master_key_file } = settings;
  const directory_id = await readDirectoryId(data_dir);
  // It is what Coppice runs on at this moment, whatever the environment of this command says.
  const pool = await findPool(store);
  if (!directory_id || !pool)
    throw new StartError(`Coppice on ${data_dir} has not started once: start it, and try again`);
  const { driver: storage } = await storageOf(data_dir, { storage: pool.driver as StorageDriverName });
  const own_objects = await objectsOf(settings);
  const source = { storage, archive: await archiveOf(data_dir, own_objects) };
  return withPlaceLease(objects, directory_id, async (held) => {
    const manifest = await makeBackup({
      store,
      source,
      own_objects,
      objects: held,
      version: VERSION,
      master_key_check,
      progress,
    });
    const { installation_id } = manifest;
    const swept = keep === undefined ? undefined : await sweep(held, { installation_id, keep });
    const { problems, sent_bytes } = manifest;
    return { ...summaryOf(manifest), sent_bytes, problems, swept, master_key_file };
  });
}

const summaryOf = ({ id, began_at, version, projects, branches }: Manifest): BackupSummary => ({
  id,
  began_at: new Date(began_at),
  version,
  projects,
  branches,
});
