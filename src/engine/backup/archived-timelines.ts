import { ObjectError, type ObjectStore } from '../../drivers/objects/contract.ts';
import type { ArchivedForBackup } from '../../store/backup-requests.ts';
import { archivedKey, type StoredArchived } from './manifest.ts';
import { type BackupTarget, NothingToSend } from './send-timeline.ts';

/** Where a timeline that is archived lies in the object storage of its installation. */
const prefixOf = (timelineId: string): string => `timelines/${timelineId}/archived/`;
/** Says that all the others are there. */
const LIST = 'list';

/**
 * Copies what is in object storage of a timeline that is there alone, as it is: a backup must not depend on a place that the
 * installation goes on changing. Throws NothingToSend when it came back meanwhile.
 */
export async function sendArchived(
  own: ObjectStore,
  timeline: ArchivedForBackup,
  { objects, known, sent }: BackupTarget,
): Promise<StoredArchived> {
  const { id } = timeline;
  const archived = { id, archived_at: timeline.archived_at.toISOString() };
  const names: string[] = [];
  for await (const { key } of own.list(prefixOf(id))) names.push(key.slice(prefixOf(id).length));
  if (!names.includes(LIST)) throw new NothingToSend(`timeline ${id} is not in ${own.place}`);
  for (const name of names) {
    const key = archivedKey(archived, name);
    if (known.has(key)) continue;
    const bytes = await own.get(prefixOf(id) + name).catch((error) => {
      if (!(error instanceof ObjectError) || error.kind !== 'missing') throw error;
      throw new NothingToSend(`timeline ${id} came back from ${own.place}`);
    });
    await objects.put(key, bytes);
    known.add(key);
    sent(bytes.length);
  }
  return { ...archived, names };
}

/** What was archived is in the object storage of the restored installation, what says that it is whole last. */
export async function fetchArchived(own: ObjectStore, objects: ObjectStore, archived: StoredArchived): Promise<void> {
  const others = archived.names.filter((name) => name !== LIST);
  for (const name of [...others, LIST]) {
    await own.put(prefixOf(archived.id) + name, await objects.get(archivedKey(archived, name)));
  }
}

/** Whether anything of any installation's timelines is in a place. */
export async function holdsTimelines(own: ObjectStore): Promise<boolean> {
  for await (const _ of own.list('timelines/')) return true;
  return false;
}
