import type pg from 'pg';
import { periodOf } from '../domain/usage.ts';
import type { Store } from '../store/connection.ts';
import { countUnfinishedOperations } from '../store/counts.ts';
import { sumUsage } from '../store/metering.ts';
import type { Log } from '../watch/log-fields.ts';
import type { MetricName } from '../watch/metric-table.ts';
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

/** What was used in this month; nothing is said of it while the store is away. */
export function usageSamples(store: Store, logger: Log): SampleSource {
  return async () => {
    const used = await sumUsage(store, periodOf(new Date()).start).catch((error: Error) => {
      logger.warn({ reason: error.message }, 'what was used could not be read');
      return undefined;
    });
    if (!used) return [];
    const sample = (name: UsageMetric, value: number): Sample => ({ name, labels: {}, value });
    return [
      sample('coppice_usage_active_seconds_total', used.active_us / 1_000_000),
      sample('coppice_usage_compute_seconds_total', used.compute_us / 1_000_000),
      sample('coppice_usage_written_bytes_total', used.written_bytes),
      sample('coppice_usage_received_bytes_total', used.received_bytes),
      sample('coppice_usage_sent_bytes_total', used.sent_bytes),
    ];
  };
}

type UsageMetric = Extract<MetricName, `coppice_usage_${string}`>;

/** What the connections to our own database are doing. */
export function poolSamples(pools: { readonly intent: pg.Pool; readonly observed: pg.Pool }): SampleSource {
  const samplesOf = (pool: string, { totalCount, idleCount, waitingCount }: pg.Pool): Sample[] => [
    { name: 'coppice_store_connections', labels: { pool, state: 'in_use' }, value: totalCount - idleCount },
    { name: 'coppice_store_connections', labels: { pool, state: 'idle' }, value: idleCount },
    { name: 'coppice_store_waiting', labels: { pool }, value: waitingCount },
  ];
  return () => Object.entries(pools).flatMap(([name, pool]) => samplesOf(name, pool));
}
