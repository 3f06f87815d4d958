/** Runs work on one key in turn and on different keys at once. */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Rejects with the signal's reason when it is aborted before the work has begun; later the work itself decides. */
  async take<T>(key: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const before = this.#last.get(key) ?? Promise.resolve();
    const mine = Promise.withResolvers<void>();
    const last = before.then(() => mine.promise);
    this.#last.set(key, last);
    void last.then(() => {
      if (this.#last.get(key) === last) this.#last.delete(key);
    });
    try {
      await untilAborted(before, signal);
      return await work();
    } finally {
      mine.resolve();
    }
  }
}

async function untilAborted(promise: Promise<unknown>, signal?: AbortSignal): Promise<void> {
  if (!signal) return void (await promise);
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const abort = () => aborted.reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
