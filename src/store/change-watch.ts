/** Those who want to look again when something changes, by what they watch. */
export interface ChangeWatch {
  /** Calls `look` whenever one of the ids may have changed, until the returned function is called. */
  watch(ids: readonly string[], look: () => void): () => void;
  /** Something of this id changed. */
  hear(id: string): void;
  /** Changes may have been missed: everybody looks. */
  hearAll(): void;
}

/** What is heard of is told by whoever listens for changes (changes.ts); nothing is polled. */
export function createChangeWatch(): ChangeWatch {
  const watchers = new Map<string, Set<() => void>>();
  const forget = (id: string, look: () => void) => {
    const set = watchers.get(id);
    set?.delete(look);
    if (set?.size === 0) watchers.delete(id);
  };
  return {
    watch: (ids, look) => {
      for (const id of ids) watchers.set(id, (watchers.get(id) ?? new Set()).add(look));
      return () => {
        for (const id of ids) forget(id, look);
      };
    },
    hear: (id) => {
      for (const look of watchers.get(id) ?? []) look();
    },
    hearAll: () => {
      for (const set of watchers.values()) for (const look of set) look();
    },
  };
}
