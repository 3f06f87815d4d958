import { type Insertable, sql } from 'kysely';
import type { StoreTransaction } from './connection.ts';
import type { TimelineRow, TimelinesTable } from './schema.ts';

/** Writes the intent of a timeline: its volume comes later, by an operation. */
export function insertTimeline(
  trx: StoreTransaction,
  timeline: Pick<Insertable<TimelinesTable>, 'id' | 'project_id' | 'parent_id' | 'distribution_id'>,
): Promise<TimelineRow> {
  return trx.insertInto('timelines').values(timeline).returningAll().executeTakeFirstOrThrow();
}

/** Says that a timeline is to go; its volume goes by an operation. */
export async function markTimelineDeleted(trx: StoreTransaction, id: string): Promise<void> {
  await trx
    .updateTable('timelines')
    .set({ deleted_at: sql<Date>`now()` })
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .execute();
}
