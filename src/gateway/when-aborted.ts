const known = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `work` once when `signal` aborts, which it has not yet; until the returned function is called. For signals that
 * thousands wait for: an AbortSignal walks all of its listeners for each one that comes or goes.
 */
export function whenAborted(signal: AbortSignal, work: () => void): () => void {
  const waiting = known.get(signal) ?? listen(signal);
  waiting.add(work);
  return () => void waiting.delete(work);
}

function listen(signal: AbortSignal): Set<() => void> {
  const waiting = new Set<() => void>();
  known.set(signal, waiting);
  const onAbort = () => {
    for (const work of waiting) {
      waiting.delete(work);
      work();
    }
  };
  signal.addEventListener('abort', onAbort, { once: true });
  return waiting;
}
