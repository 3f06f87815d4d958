import type { ObjectStore } from '../../drivers/objects/contract.ts';
import {
  type ArchivedForBackup,
  type BackupTimeline,
  findArchivedForBackup,
  findBackupTimelines,
} from '../../store/backup-requests.ts';
import type { Store } from '../../store/connection.ts';
import { countEverything } from '../../store/counts.ts';
import { atOneMoment, type StoreDump } from '../../store/dump.ts';
import { findInstallationId } from '../../store/installation.ts';
import { findReadySnapshots, type ReadySnapshot } from '../../store/timeline-snapshots.ts';
import { putSealed } from '../objects/sealed.ts';
import { dumpKey } from './manifest.ts';

/** Our own database at one moment: its rows lie in object storage, and this is what they refer to. */
export interface StoreMoment {
  readonly dump: StoreDump;
  /** Objects of rows, by table. */
  readonly parts: Readonly<Record<string, number>>;
  readonly timelines: readonly BackedTimeline[];
  readonly archived: readonly ArchivedForBackup[];
  readonly projects: number;
  readonly branches: number;
  readonly installation_id: string;
}

export interface BackedTimeline {
  readonly timeline: BackupTimeline;
  /** Those that can be replayed from, oldest first. */
  readonly snapshots: readonly ReadySnapshot[];
}

/** Puts our own database as it is at this moment into object storage, as part of the backup `id`. */
export function putStoreMoment(
  store: Store,
  { objects, id, sent }: { objects: ObjectStore; id: string; sent: (bytes: number) => void },
): Promise<StoreMoment> {
  return atOneMoment(store, async ({ trx, dump, rows }) => {
    const parts: Record<string, number> = {};
    for (const table of dump.tables) {
      let part = 0;
      for await (const some of rows(table)) {
        sent(await putSealed(objects, dumpKey(id, table, part), Buffer.from(JSON.stringify(some))));
        part += 1;
      }
      parts[table] = part;
    }
    const timelines: BackedTimeline[] = [];
    for (const timeline of await findBackupTimelines(trx)) {
      timelines.push({ timeline, snapshots: await findReadySnapshots(trx, timeline.id) });
    }
    const archived = await findArchivedForBackup(trx);
    const { projects, branches } = await countEverything(trx);
    return { dump, parts, timelines, archived, projects, branches, installation_id: await findInstallationId(trx) };
  });
}

/** Whether what a moment says of a timeline is no longer so: it was deleted since, or a snapshot of it was. */
export async function isOutdated(store: Store, { timeline, snapshots }: BackedTimeline): Promise<boolean> {
  const now = (await findBackupTimelines(store)).find(({ id }) => id === timeline.id);
  if (!now) return true;
  const there = new Set((await findReadySnapshots(store, timeline.id)).map(({ id }) => id));
  return snapshots.some(({ id }) => !there.has(id));
}
