import type { Figure } from './figure.ts';

/** What a person asked for on the command line, the same for every section. */
export interface MeasureOptions {
  /** In place of a section's own number of rounds. */
  readonly rounds?: number;
  /** How long a round under load lasts, in place of a section's own. */
  readonly seconds?: number;
  /** A few rounds and small data, for trying out; never for figures that are published. */
  readonly quick: boolean;
  /** Of Coppice, by the names of their variables: in place of those that people get. */
  readonly settings: Readonly<Record<string, string>>;
  /** What the pool of a measured Coppice is. */
  readonly filesystem: 'xfs' | 'btrfs';
  /** Seeds whatever is random. */
  readonly seed: number;
  /** Aborted when the person wants to stop; sections look at it between rounds. */
  readonly signal: AbortSignal;
  /** Says what is being done. */
  readonly tell: (text: string) => void;
}

/**
 * A part of the benchmark: prepares, measures, cleans up, and returns its lines of the table; or, where it takes long, one
 * by one, so that a failure later on does not lose them.
 */
export interface Section {
  readonly measure: (options: MeasureOptions) => Promise<Figure[]> | AsyncIterable<Figure>;
}

const QUICK_ROUNDS = 3;
/** So long that the beginning of connections and of the pool does not weigh. */
const ROUND_SECONDS = 10;
const QUICK_ROUND_SECONDS = 2;

/** How many seconds a round under load lasts. */
export function secondsOf({ seconds, quick }: MeasureOptions): number {
  return seconds ?? (quick ? QUICK_ROUND_SECONDS : ROUND_SECONDS);
}

/** How many rounds to measure. */
export function roundsOf({ rounds, quick }: MeasureOptions, full: number, quick_rounds = QUICK_ROUNDS): number {
  return rounds ?? (quick ? quick_rounds : full);
}

/**
 * Runs every contestant once a round, the order turned by one each time, so that neither the first nor the last place
 * is always the same one's. The rounds before `warm_up` is used up are run and not counted.
 *
 * @returns what each contestant returned, round by round
 */
export async function alternate<K extends string, T>(
  { signal, tell }: MeasureOptions,
  { rounds, warm_up = 1 }: { rounds: number; warm_up?: number },
  contestants: Readonly<Record<K, () => Promise<T>>>,
): Promise<Record<K, T[]>> {
  const names = Object.keys(contestants) as K[];
  const samples = Object.fromEntries(names.map((name) => [name, [] as T[]])) as Record<K, T[]>;
  for (let round = -warm_up; round < rounds; round += 1) {
    for (let place = 0; place < names.length; place += 1) {
      signal.throwIfAborted();
      const name = names[(round + warm_up + place) % names.length]!;
      const value = await contestants[name]();
      if (round >= 0) samples[name].push(value);
    }
    if (round >= 0 && (round + 1) % Math.ceil(rounds / 5) === 0) tell(`${round + 1} of ${rounds} rounds`);
  }
  return samples;
}
