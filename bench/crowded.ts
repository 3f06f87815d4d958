import type { Figure } from './figure.ts';
import { measureRows, type Row } from './pooled.ts';
import type { MeasureOptions } from './section.ts';

const WORKERS = 2;
const CROWDED: Row = {
  ...{ sslmode: 'disable', mode: 'simple', clients: 1000, at_least: 1 },
  // The time in which pgbench logs them in would be part of a duration.
  transactions: { full: 100, quick: 10 },
};

/** A pooled host with many more clients than connections to the server, behind two gateway workers. */
export async function* measure(options: MeasureOptions): AsyncGenerator<Figure> {
  yield* measureRows(options, [CROWDED], WORKERS);
}
