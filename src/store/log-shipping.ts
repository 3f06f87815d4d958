import type { Store } from './connection.ts';

/** How far object storage is behind what is archived. */
export interface LogShipping {
  readonly waiting_segments: number;
  /** When the oldest of them was archived. */
  readonly waiting_since: Date | null;
  /** Why nothing could be sent the last time. */
  readonly failure: string | null;
  readonly failing_since: Date | null;
}

export async function observeLogShipping(store: Store, seen: LogShipping): Promise<void> {
  const row = { ...seen, observed_at: new Date() };
  await store
    .insertInto('log_shipping')
    .values(row)
    .onConflict((conflict) => conflict.column('singleton').doUpdateSet(row))
    .execute();
}

/** Undefined where nothing was ever sent. */
export function findLogShipping(store: Store): Promise<LogShipping | undefined> {
  return store
    .selectFrom('log_shipping')
    .select(['waiting_segments', 'waiting_since', 'failure', 'failing_since'])
    .executeTakeFirst();
}
