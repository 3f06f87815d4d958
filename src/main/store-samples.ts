import type pg from 'pg';
import type { Store } from '../store/connection.ts';
import { countUnfinishedOperations } from '../store/counts.ts';
import type { Log } from '../watch/log-fields.ts';
import type { SampleSource } from '../watch/metrics.ts';
import type { Sample } from '../watch/sample.ts';

/** What has not ended yet. While the store is away nothing is said of it, and the rest is shown all the same. */
export function operationSamples(store: Store, logger: Log): SampleSource {
  return async () => {
    const rows = await countUnfinishedOperations(store).catch((error: Error) => {
      logger.warn({ reason: error.message }, 'operations could not be counted');
      return [];
    });
    return rows.map(({ action, status, count }): Sample => {
      return { name: 'coppice_operations', labels: { action, status }, value: count };
    });
  };
}

/** What the connections to our own database are doing. */
export function poolSamples(pools: { readonly intent: pg.Pool; readonly observed: pg.Pool }): SampleSource {
  const samplesOf = (pool: string, { totalCount, idleCount, waitingCount }: pg.Pool): Sample[] => [
    { name: 'coppice_store_connections', labels: { pool, state: 'in_use' }, value: totalCount - idleCount },
    { name: 'coppice_store_connections', labels: { pool, state: 'idle' }, value: idleCount },
    { name: 'coppice_store_waiting', labels: { pool }, value: waitingCount },
  ];
  return () => Object.entries(pools).flatMap(([name, pool]) => samplesOf(name, pool));
}
