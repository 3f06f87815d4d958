/** One line of the table: our figure beside its peer's, both measured in turn in the same run. */
export interface Figure {
  readonly what: string;
  readonly ours: number;
  readonly unit: string;
  /** Undefined where nothing comparable exists. */
  readonly peer?: number;
  /** How the peer was made, and which of its values stands beside ours. */
  readonly peer_is?: string;
  /** What is to be reached, as a person reads it; undefined where a figure is only told. */
  readonly goal?: string;
  readonly met?: boolean;
  /** Samples of each side. */
  readonly rounds: number;
  /** All of them, in the order in which they were taken; for the JSON file. */
  readonly samples?: Readonly<Record<string, readonly number[]>>;
}

/** The value at or below which `share` (0..1) of the samples lie; nearest rank, so it is always one of them. */
export function percentile(samples: readonly number[], share: number): number {
  if (samples.length === 0) throw new Error('there is no percentile of no samples');
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]!;
}

export const median = (samples: readonly number[]): number => percentile(samples, 0.5);

interface Compared {
  readonly what: string;
  readonly unit: string;
  readonly ours: readonly number[];
  readonly peer: readonly number[];
  readonly peer_is: string;
  /** Of ours; the median unless given. The peer's median always stands beside it. */
  readonly share?: number;
  /** The ratio that is to be reached. */
  readonly at_most?: number;
  readonly at_least?: number;
}

/** Compares the median of ours, or another percentile, with the median of the peer's. */
export function ratioFigure({ what, unit, ours, peer, peer_is, share = 0.5, at_most, at_least }: Compared): Figure {
  const figure = { what, unit, ours: percentile(ours, share), peer: median(peer), peer_is, rounds: ours.length };
  const samples = { ours, peer };
  const ratio = figure.ours / figure.peer;
  if (at_most !== undefined) return { ...figure, samples, goal: `<= ${at_most}x`, met: ratio <= at_most };
  if (at_least !== undefined) return { ...figure, samples, goal: `>= ${at_least}x`, met: ratio >= at_least };
  return { ...figure, samples };
}

interface Absolute {
  readonly what: string;
  readonly unit: string;
  readonly ours: readonly number[];
  readonly share?: number;
  readonly at_most?: number;
  readonly at_least?: number;
  /** For scale; no part of the goal. */
  readonly peer?: readonly number[];
  readonly peer_is?: string;
}

/** Holds the median of ours, or another percentile, against a fixed number. The peer's same percentile is for scale. */
export function absoluteFigure({ what, unit, ours, share = 0.5, at_most, at_least, peer, peer_is }: Absolute): Figure {
  const value = percentile(ours, share);
  const figure: Figure = {
    ...{ what, unit, ours: value, rounds: ours.length, peer_is },
    peer: peer && percentile(peer, share),
    samples: { ours, ...(peer && { peer }) },
  };
  if (at_most !== undefined) return { ...figure, goal: `<= ${at_most} ${unit}`, met: value <= at_most };
  if (at_least !== undefined) return { ...figure, goal: `>= ${at_least} ${unit}`, met: value >= at_least };
  return figure;
}

function number(value: number): string {
  if (Number.isInteger(value) || Math.abs(value) >= 100) return value.toFixed(0);
  return value.toFixed(Math.abs(value) >= 1 ? 1 : 2);
}

function verdict({ met }: Figure): string {
  if (met === undefined) return '';
  return met ? 'reached' : '**missed**';
}

/** The table as Markdown. */
export function formatFigures(figures: readonly Figure[]): string {
  const rows = figures.map((figure) => {
    const { what, ours, unit, peer, peer_is, goal = '', rounds } = figure;
    const beside = peer === undefined ? '' : `${number(peer)} ${unit}`;
    const ratio = peer === undefined ? '' : `${(ours / peer).toFixed(2)}x`;
    return [what, `${number(ours)} ${unit}`, beside, ratio, peer_is ?? '', goal, verdict(figure), String(rounds)];
  });
  const header = ['figure', 'Coppice', 'peer', 'ratio', 'what the peer is', 'goal', '', 'rounds'];
  return [header, header.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');
}
