import { sql } from 'kysely';
import type { TimelineId } from '../domain/ids.ts';
import type { Lsn } from '../domain/lsn.ts';
import type { Store } from './connection.ts';
import type { TimelineSnapshotRow } from './schema.ts';

/** A snapshot that can be replayed from. */
export type ReadySnapshot = TimelineSnapshotRow & {
  readonly volume: NonNullable<TimelineSnapshotRow['volume']>;
  readonly lsn: Lsn;
  readonly taken_at: Date;
};

/** The newest snapshot of a timeline that holds nothing from `lsn` on; undefined when there is none. */
export async function findSnapshotBefore(
  store: Store,
  timelineId: TimelineId,
  lsn: Lsn,
): Promise<ReadySnapshot | undefined> {
  const row = await store
    .selectFrom('timeline_snapshots')
    .selectAll()
    .where('timeline_id', '=', timelineId)
    .where('volume', 'is not', null)
    .where('deleted_at', 'is', null)
    .where(sql<boolean>`lsn::pg_lsn <= ${lsn}::pg_lsn`)
    .orderBy(sql`lsn::pg_lsn`, 'desc')
    .limit(1)
    .executeTakeFirst();
  return row as ReadySnapshot | undefined;
}
