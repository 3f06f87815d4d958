interface Waiting {
  readonly works: Set<() => void>;
  readonly onAbort: () => void;
}

const known = new WeakMap<AbortSignal, Waiting>();

/**
 * Calls `work` once when `signal` aborts, which it has not yet; until the returned function is called. For signals that
 * thousands wait for: an AbortSignal walks all of its listeners for each one that comes or goes.
 */
export function whenAborted(signal: AbortSignal, work: () => void): () => void {
  const waiting = known.get(signal) ?? listen(signal);
  waiting.works.add(work);
  return () => {
    if (!waiting.works.delete(work) || waiting.works.size > 0) return;
    // A signal that is made of others lives as long as anybody listens to it.
    signal.removeEventListener('abort', waiting.onAbort);
    known.delete(signal);
  };
}

function listen(signal: AbortSignal): Waiting {
  const works = new Set<() => void>();
  const onAbort = () => {
    for (const work of works) {
      works.delete(work);
      work();
    }
  };
  signal.addEventListener('abort', onAbort, { once: true });
  const waiting = { works, onAbort };
  known.set(signal, waiting);
  return waiting;
}
