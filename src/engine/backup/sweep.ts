import type { ObjectStore } from '../../drivers/objects/contract.ts';
import { chunksBelow } from '../objects/chunks.ts';
import { chunksOf } from '../objects/volumes.ts';
import { dumpKey, getManifest, listBackups, logKey, manifestKey, PREFIXES, volumeKey } from './manifest.ts';

const REMOVED_AT_ONCE = 500;

/**
 * Only the newest `keep` backups are in the place, and what they are made of. The caller holds its lease. What is no
 * longer needed goes after those who needed it, lists before what they list: a kill leaves only what the next sweep takes.
 * @throws BackupError, removing nothing, while it is not known what a backup that stays needs
 * @returns how many backups were removed, and how many bytes in all
 */
export async function sweep(
  objects: ObjectStore,
  keep: number,
): Promise<{ readonly removed: readonly string[]; readonly bytes: number }> {
  const ids = await listBackups(objects);
  const removed = ids.slice(0, Math.max(0, ids.length - keep));
  const needed = await neededBy(objects, ids.slice(removed.length));
  await objects.ensureRemoved(removed.map(manifestKey));
  let bytes = 0;
  for (const prefix of [PREFIXES.dumps, PREFIXES.volumes, PREFIXES.log, PREFIXES.chunks]) {
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
async function neededBy(objects: ObjectStore, ids: readonly string[]): Promise<Set<string>> {
  const needed = new Set<string>();
  const chunks = chunksBelow(objects, '');
  for (const id of ids) {
    const { parts, timelines } = await getManifest(objects, id);
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
