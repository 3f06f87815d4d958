/** Something that was asked and answered; `began` and `ended` are counts of one clock. */
export interface Answered {
  readonly began: number;
  readonly ended: number;
}

export interface Model<State, Call extends Answered> {
  readonly initial: State;
  /** What becomes of the state when the call is the next that is done; undefined where its answer would have been another. */
  readonly step: (state: State, call: Call) => State | undefined;
}

export interface SerialOrder<Call> {
  /** As far as it goes. */
  readonly order: readonly Call[];
  /** Calls that no order explains together with all others; empty when everything is explained. */
  readonly left: readonly Call[];
}

/**
 * An order in which the calls, done one after the other, would all have been answered as they were, and in which none
 * comes before one that had ended when it began (linearizability, by the search of Wing and Gong); where there is none, the
 * longest that begins so. The search remembers where it has been, so that many calls are no trouble as long as few were
 * under way at once.
 */
export function findSerialOrder<State, Call extends Answered>(
  calls: readonly Call[],
  { initial, step }: Model<State, Call>,
): SerialOrder<Call> {
  const ordered = [...calls].sort((a, b) => a.began - b.began);
  const done = ordered.map(() => false);
  const order: Call[] = [];
  let longest: readonly Call[] = [];
  const deadEnds = new Set<string>();
  const place = (state: State) => {
    const first = done.indexOf(false);
    return `${first} ${done.slice(first).map(Number).join('').replace(/0+$/, '')} ${JSON.stringify(state)}`;
  };
  const search = (state: State): boolean => {
    if (order.length === ordered.length) return true;
    const here = place(state);
    if (deadEnds.has(here)) return false;
    let earliest_end = Infinity;
    for (const [at, call] of ordered.entries()) {
      // Whatever began after another one had ended, which is still to be done, is not the next.
      if (call.began > earliest_end) break;
      if (done[at]) continue;
      earliest_end = Math.min(earliest_end, call.ended);
      const next = step(state, call);
      if (next === undefined) continue;
      done[at] = true;
      order.push(call);
      if (order.length > longest.length) longest = [...order];
      if (search(next)) return true;
      order.pop();
      done[at] = false;
    }
    deadEnds.add(here);
    return false;
  };
  search(initial);
  const explained = new Set(longest);
  return { order: longest, left: ordered.filter((call) => !explained.has(call)) };
}
