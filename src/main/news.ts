/** A wait goes on this long without news before it looks by itself: announcements can be missed. */
const LOOK_AGAIN_MS = 1_000;

export interface News {
  /** Resolves when something is heard of one of the ids, or after a second. */
  next(ids: readonly string[]): Promise<void>;
  hear(id: string): void;
}

/** Lets those who wait for something look again when it changed. */
export function createNews(): News {
  const waiting = new Map<string, Set<() => void>>();
  return {
    next: (ids) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, LOOK_AGAIN_MS);
      for (const id of ids) {
        const set = waiting.get(id) ?? new Set();
        waiting.set(id, set.add(resolve));
      }
      return promise.finally(() => {
        clearTimeout(timer);
        for (const id of ids) {
          const set = waiting.get(id);
          set?.delete(resolve);
          if (set?.size === 0) waiting.delete(id);
        }
      });
    },
    hear: (id) => {
      for (const resolve of waiting.get(id) ?? []) resolve();
    },
  };
}
