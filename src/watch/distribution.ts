/** How long something took, in seconds: upper bounds of what is counted together. */
export const DURATION_BOUNDS: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60,
];

/** Durations by size, for a histogram. Costs little to add to, since it is read rarely and added to often. */
export class Distribution {
  /** Of each bound, and of what is longer than the last. */
  readonly counts: number[] = new Array(DURATION_BOUNDS.length + 1).fill(0);
  sum_seconds = 0;

  observe(duration_ms: number): void {
    const seconds = duration_ms / 1000;
    let at = 0;
    while (at < DURATION_BOUNDS.length && seconds > DURATION_BOUNDS[at]!) at++;
    this.counts[at]! += 1;
    this.sum_seconds += seconds;
  }
}
