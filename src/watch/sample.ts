import type { Distribution } from './distribution.ts';
import type { METRICS, MetricName } from './metric-table.ts';

/** One reading of a metric. */
export type Sample = {
  readonly [Name in MetricName]: {
    readonly name: Name;
    readonly labels: Readonly<Record<(typeof METRICS)[Name]['labels'][number], string>>;
    readonly value: (typeof METRICS)[Name]['type'] extends 'histogram' ? Distribution : number;
  };
}[MetricName];
