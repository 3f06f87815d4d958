import { type Insertable, sql, type Updateable } from 'kysely';
import type { ProjectId, SnapshotId } from '../domain/ids.ts';
import type { Lsn } from '../domain/lsn.ts';
import { oneOf } from './any-of.ts';
import type { Store, StoreTransaction } from './connection.ts';
import type { SnapshotRow, SnapshotsTable } from './schema.ts';
import type { SnapshotConfig } from './snapshot-config.ts';

/** A snapshot of the API with what is known of its timeline. */
export interface SnapshotView extends SnapshotRow {
  readonly ready_at: Date | null;
  readonly logical_size_bytes: number | null;
  readonly distribution_id: string;
  /** Its making is not over; false as well when it has failed for good. */
  readonly being_made: boolean;
}

function snapshotViews(store: Store) {
  return store
    .selectFrom('snapshots')
    .innerJoin('timelines', 'timelines.id', 'snapshots.timeline_id')
    .selectAll('snapshots')
    .select(['timelines.ready_at', 'timelines.logical_size_bytes', 'timelines.distribution_id'])
    .select((eb) =>
      eb
        .exists(
          eb
            .selectFrom('operations')
            .select('operations.id')
            .whereRef('operations.project_id', '=', 'snapshots.project_id')
            .whereRef('operations.timeline_id', '=', 'snapshots.timeline_id')
            .where('operations.status', 'in', oneOf(['scheduling', 'running', 'cancelling'])),
        )
        .$castTo<boolean>()
        .as('being_made'),
    )
    .where('snapshots.deleted_at', 'is', null);
}

export function findSnapshot(store: Store, id: SnapshotId): Promise<SnapshotView | undefined> {
  return snapshotViews(store).where('snapshots.id', '=', id).executeTakeFirst();
}

/** The project's snapshots, newest first. */
export function listSnapshots(store: Store, project_id: ProjectId): Promise<SnapshotView[]> {
  return snapshotViews(store)
    .where('snapshots.project_id', '=', project_id)
    .orderBy('snapshots.created_at', 'desc')
    .orderBy('snapshots.id')
    .execute();
}

export async function countSnapshots(store: Store, project_id: ProjectId): Promise<number> {
  const { count } = await store
    .selectFrom('snapshots')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('project_id', '=', project_id)
    .where('deleted_at', 'is', null)
    .executeTakeFirstOrThrow();
  return count;
}

export async function insertSnapshot(trx: StoreTransaction, snapshot: Insertable<SnapshotsTable>): Promise<void> {
  await trx.insertInto('snapshots').values(snapshot).execute();
}

/** Renames a snapshot, or changes when it goes. */
export async function updateSnapshot(
  trx: StoreTransaction,
  id: SnapshotId,
  changes: Pick<Updateable<SnapshotsTable>, 'name' | 'expires_at'>,
): Promise<void> {
  await trx.updateTable('snapshots').set(changes).where('id', '=', id).execute();
}

/** Says that a snapshot is to go; its timeline goes by an operation. */
export async function markSnapshotDeleted(trx: StoreTransaction, id: SnapshotId): Promise<void> {
  await trx.updateTable('snapshots').set({ deleted_at: sql<Date>`now()` }).where('id', '=', id).execute();
}

/** Observed: what the snapshot holds. */
export async function observeSnapshotPoint(
  store: Store,
  id: SnapshotId,
  point: { readonly lsn: Lsn; readonly timestamp: Date },
): Promise<void> {
  await store.updateTable('snapshots').set(point).where('id', '=', id).execute();
}

/** Replaces what a snapshot says of its roles and databases. */
export async function writeSnapshotConfig(store: Store, id: SnapshotId, config: SnapshotConfig): Promise<void> {
  await store
    .updateTable('snapshots')
    .set({ config: JSON.stringify(config) })
    .where('id', '=', id)
    .execute();
}

/** Snapshots whose time is over, those that wait longest first. */
export function findExpiringSnapshots(
  store: Store,
  before: Date,
): Promise<(Pick<SnapshotRow, 'id' | 'project_id'> & { expires_at: Date })[]> {
  return store
    .selectFrom('snapshots')
    .select(['id', 'project_id', 'expires_at'])
    .where('deleted_at', 'is', null)
    .where('expires_at', '<=', before)
    .$narrowType<{ expires_at: Date }>()
    .orderBy('expires_at')
    .limit(100)
    .execute();
}
