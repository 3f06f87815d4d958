import { sql } from 'kysely';
import type { TimelineId } from '../domain/ids.ts';
import type { Store } from './connection.ts';
import type { HistoryDamageRow } from './schema.ts';

/** A customer who breaks into its own server can make any number of damages; so many are enough to know. */
const OPEN_MAX = 100;

export type DamageKind = HistoryDamageRow['kind'];

/** Writes a damage down. False when it is known already, or when enough is known of that timeline. */
export async function noteDamage(
  store: Store,
  damage: Pick<HistoryDamageRow, 'timeline_id' | 'kind' | 'object' | 'detail'>,
): Promise<boolean> {
  const { timeline_id, kind, object, detail } = damage;
  const { rows } = await sql`
    insert into history_damages (timeline_id, kind, object, detail)
    select ${timeline_id}, ${kind}, ${object}, ${detail} where (
      select count(*) from history_damages where timeline_id = ${timeline_id} and resolved_at is null
    ) < ${OPEN_MAX}
    on conflict (timeline_id, kind, object) where resolved_at is null do nothing
    returning id`.execute(store);
  return rows.length > 0;
}

/** What is wrong with a timeline's history, as far as it is known. */
export function findDamages(store: Store, timelineId: TimelineId): Promise<HistoryDamageRow[]> {
  return store
    .selectFrom('history_damages')
    .selectAll()
    .where('timeline_id', '=', timelineId)
    .where('resolved_at', 'is', null)
    .orderBy('id')
    .execute();
}

/** It was mended, or what it concerns is not asked for any more. */
export async function resolveDamage(store: Store, id: number): Promise<void> {
  await store
    .updateTable('history_damages')
    .set({ resolved_at: sql<Date>`clock_timestamp()` })
    .where('id', '=', id)
    .execute();
}

/** The timeline has no history any more, and so nothing that could be wrong with it. */
export async function resolveDamages(store: Store, timelineId: TimelineId): Promise<void> {
  await store
    .updateTable('history_damages')
    .set({ resolved_at: sql<Date>`clock_timestamp()` })
    .where('timeline_id', '=', timelineId)
    .where('resolved_at', 'is', null)
    .execute();
}

/** A damage as a person can find it. */
export interface NamedDamage {
  readonly project_id: string;
  /** Null when no branch points at the timeline: a snapshot does. */
  readonly branch_id: string | null;
  readonly kind: DamageKind;
  readonly object: string;
  readonly detail: string;
  readonly found_at: Date;
}

/** The oldest damages that are not resolved, of all projects. */
export async function findOpenDamages(store: Store, limit: number): Promise<NamedDamage[]> {
  const { rows } = await sql<NamedDamage>`
    select timelines.project_id, branches.id as branch_id, kind, object, detail, found_at
    from history_damages join timelines on timelines.id = history_damages.timeline_id
    left join branches on branches.timeline_id = timelines.id and branches.deleted_at is null
    where resolved_at is null order by history_damages.id limit ${limit}`.execute(store);
  return rows;
}
