import { whenAborted } from './when-aborted.ts';

/** The outcome of `work`, unless the time is over or `signal` aborts first. What `work` does later is not waited for. */
export async function withDeadline<T>(
  work: Promise<T>,
  { delay_ms, error, signal }: { delay_ms: number; error: () => Error; signal: AbortSignal },
): Promise<T> {
  const { promise: interrupted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  const timer = setTimeout(() => reject(error()), delay_ms);
  const forget = whenAborted(signal, onAbort);
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([work, interrupted]);
  } finally {
    clearTimeout(timer);
    forget();
  }
}
