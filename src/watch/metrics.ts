import { performance } from 'node:perf_hooks';
import { setImmediate as othersTurn } from 'node:timers/promises';
import { AggregatorRegistry, collectDefaultMetrics, type Metric, Registry } from 'prom-client';
import { type Distribution, DURATION_BOUNDS } from './distribution.ts';
import { METRICS, type MetricKind, type MetricName } from './metric-table.ts';
import type { Sample } from './sample.ts';

/** Reads what a room knows at this moment. Asked only while somebody looks. */
export type SampleSource = () => readonly Sample[] | Promise<readonly Sample[]>;

/** Metrics of one process, as plain data that can be sent to another. */
export type MetricFamilies = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

export interface Metrics {
  /** Everything in Prometheus's text format, other processes added in. Who asks meanwhile gets the same. */
  text(): Promise<string>;
  /** What this process alone knows. */
  families(): Promise<MetricFamilies>;
}

/** To watch the loop closely enough to tell how late it is takes half a per cent of a processor, all the time. */
const LOOP_INTERVAL_MS = 3_600_000;
const OF_A_WATCHED_LOOP = ['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99'].map(
  (part) => `nodejs_eventloop_lag_${part}_seconds`,
);

/** Of the text. */
export const METRICS_CONTENT_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;

/**
 * Metrics of this process. Nothing runs for them before somebody looks for the first time.
 *
 * @param others what other processes of the same installation know that serve with this one
 */
export function createMetrics(
  sources: readonly SampleSource[],
  others: () => Promise<readonly MetricFamilies[]> = async () => [],
): Metrics {
  let ofNode: Registry | undefined;
  let under_way: Promise<string> | undefined;

  const readNode = (): Registry => {
    if (!ofNode) {
      ofNode = new Registry();
      collectDefaultMetrics({ register: ofNode, eventLoopMonitoringPrecision: LOOP_INTERVAL_MS });
      for (const name of OF_A_WATCHED_LOOP) ofNode.removeSingleMetric(name);
    }
    return ofNode;
  };
  const readSamples = async () => (await Promise.all([loopSamples, ...sources].map((source) => source()))).flat();
  const familiesOf = (samples: readonly Sample[]) => {
    const registry = new Registry();
    for (const name of NAMES) registry.registerMetric(metricOf(name, samplesOf(name, samples)));
    return Registry.merge([readNode(), registry]).getMetricsAsJSON();
  };
  const text = async () => {
    const [samples, more] = await Promise.all([readSamples(), others()]);
    if (more.length === 0) return writeInPieces(readNode(), samples);
    return writeSum([await familiesOf(samples), ...more]);
  };
  return {
    families: async () => familiesOf(await readSamples()),
    text: () => {
      under_way ??= text().finally(() => {
        under_way = undefined;
      });
      return under_way;
    },
  };
}

const loopSamples: SampleSource = () => [
  {
    name: 'coppice_event_loop_active_seconds_total',
    labels: {},
    value: performance.eventLoopUtilization().active / 1000,
  },
];

const NAMES = Object.keys(METRICS) as MetricName[];
/** Samples that are written in one go: a histogram has many lines, and clients wait meanwhile. */
const PIECE_SAMPLES = 50;

const PIECE_VALUES = 1_000;

/** What a metric is was said ahead of its first piece. */
const withoutHead = (piece: string): string => piece.replace(/^#.*\n#.*\n/, '');

const samplesOf = (name: MetricName, samples: readonly Sample[]) => samples.filter((sample) => sample.name === name);

async function writeInPieces(ofNode: Registry, samples: readonly Sample[]): Promise<string> {
  const pieces = [await ofNode.metrics()];
  for (const name of NAMES) {
    const own = samplesOf(name, samples);
    for (let at = 0; at === 0 || at < own.length; at += PIECE_SAMPLES) {
      const registry = new Registry();
      registry.registerMetric(metricOf(name, own.slice(at, at + PIECE_SAMPLES)));
      const piece = await registry.metrics();
      pieces.push(at === 0 ? piece : withoutHead(piece));
      await othersTurn();
    }
  }
  return pieces.join('');
}

/** Adds up what several processes know, metric by metric. */
async function writeSum(processes: readonly MetricFamilies[]): Promise<string> {
  const names = new Set(processes.flat().map(({ name }) => name));
  const texts: string[] = [];
  for (const name of names) {
    const same = processes.map((families) => families.filter((family) => family.name === name));
    for (const [at, piece] of piecesOf(same).entries()) {
      const text = await AggregatorRegistry.aggregate(piece).metrics();
      texts.push(at === 0 ? text : withoutHead(text));
      await othersTurn();
    }
  }
  return texts.join('');
}

/** Parts of about `PIECE_VALUES`, each with everything of some endpoints, so that they can be added up one by one. */
function piecesOf(processes: readonly MetricFamilies[]): MetricFamilies[][] {
  const total = processes.flat().reduce((sum, { values }) => sum + values.length, 0);
  const pieces = Math.max(1, Math.ceil(total / PIECE_VALUES));
  const places = new Map<unknown, number>();
  const placeOf = ({ labels }: { labels: Readonly<Record<string, unknown>> }): number => {
    const place = places.get(labels.endpoint_id) ?? places.size % pieces;
    places.set(labels.endpoint_id, place);
    return place;
  };
  const split = (family: MetricFamilies[number]): MetricFamilies => {
    const parts = Array.from({ length: pieces }, () => ({ ...family, values: [] as typeof family.values }));
    for (const value of family.values) parts[placeOf(value)]!.values.push(value);
    return parts;
  };
  const parts = processes.map((families) => families.map(split));
  return Array.from({ length: pieces }, (_, at) => parts.map((families) => families.map((family) => family[at]!)));
}

/** What a registry asks of a metric. Ours keep nothing: they are made for one reading. */
function metricOf(name: MetricName, samples: readonly Sample[]): Metric {
  const { type, help }: MetricKind = METRICS[name];
  const values = samples.flatMap(({ labels, value }): SeriesValue[] =>
    typeof value === 'number' ? [{ labels, value }] : histogramValues(name, labels, value),
  );
  const family = { name, help, type, values, aggregator: 'sum' };
  return { name, get: async () => family } as unknown as Metric;
}

interface SeriesValue {
  readonly metricName?: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

function histogramValues(
  name: string,
  labels: SeriesValue['labels'],
  { counts, sum_seconds }: Distribution,
): SeriesValue[] {
  let count = 0;
  const buckets = counts.map((counted, at) => {
    count += counted;
    return { metricName: `${name}_bucket`, labels: { ...labels, le: DURATION_BOUNDS[at] ?? '+Inf' }, value: count };
  });
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: sum_seconds },
    { metricName: `${name}_count`, labels, value: count },
  ];
}
