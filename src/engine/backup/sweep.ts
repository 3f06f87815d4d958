import type { ObjectStore } from '../../drivers/objects/contract.ts';
import { chunksBelow } from '../objects/chunks.ts';
import { chunksOf } from '../objects/volumes.ts';
import {
  archivedKey,
  dumpKey,
  getManifest,
  listBackups,
  logKey,
  type Manifest,
  manifestKey,
  PREFIXES,
  volumeKey,
} from './manifest.ts';

const REMOVED_AT_ONCE = 500;

/**
 * Only the newest `keep` backups of an installation are in the place, those of others, and what all these are made of. The
 * caller holds its lease. What is no longer needed goes after those who needed it, lists before what they list: a kill
 * leaves only what the next sweep takes.
 * @throws BackupError, removing nothing, while it is not known what a backup needs
 * @returns the backups that were removed, and how many bytes in all
 */
export async function sweep(
  objects: ObjectStore,
  { installation_id, keep }: { readonly installation_id: string; readonly keep: number },
): Promise<{ readonly removed: readonly string[]; readonly bytes: number }> {
  const manifests: Manifest[] = [];
  for (const id of await listBackups(objects)) manifests.push(await getManifest(objects, id));
  const own = manifests.filter((manifest) => manifest.installation_id === installation_id).map(({ id }) => id);
  const removed = own.slice(0, Math.max(0, own.length - keep));
  const needed = await neededBy(
    objects,
    manifests.filter(({ id }) => !removed.includes(id)),
  );
  await objects.ensureRemoved(removed.map(manifestKey));
  let bytes = 0;
  for (const prefix of [PREFIXES.dumps, PREFIXES.volumes, PREFIXES.log, PREFIXES.archived, PREFIXES.chunks]) {
    let spare: string[] = [];
    const remove = async () => {
      await objects.ensureRemoved(spare);
      spare = [];
    };
    for await (const object of objects.list(prefix)) {
      if (needed.has(object.key)) continue;
      spare.push(object.key);
      bytes += object.bytes;
      if (spare.length >= REMOVED_AT_ONCE) await remove();
    }
    await remove();
  }
  return { removed, bytes };
}

/** Every key that one of these backups is made of. */
async function neededBy(objects: ObjectStore, manifests: readonly Manifest[]): Promise<Set<string>> {
  const needed = new Set<string>();
  const chunks = chunksBelow(objects, '');
  for (const { id, parts, timelines, archived } of manifests) {
    for (const one of archived) for (const name of one.names) needed.add(archivedKey(one, name));
    for (const [table, count] of Object.entries(parts)) {
      for (let part = 0; part < count; part++) needed.add(dumpKey(id, table, part));
    }
    for (const timeline of timelines) {
      for (const file of timeline.log) needed.add(logKey(timeline.id, file));
      for (const volume of timeline.volumes) {
        const key = volumeKey(volume);
        if (needed.has(key)) continue;
        needed.add(key);
        for (const name of await chunksOf({ objects, chunks, key })) needed.add(chunks.keyOf(name));
      }
    }
  }
  return needed;
}
