/** Entries kept; beyond it the ones that were put in first go. */
export const ENTRIES_MAX = 10_000;

/** One look-up for all who ask at once; an answer is kept only while changes to it would be heard, a failure never. */
export function remember<T>(
  entries: Map<string, Promise<T>>,
  key: string,
  load: () => Promise<T>,
  isFresh: () => boolean,
): Promise<T> {
  const known = entries.get(key);
  if (known) return known;
  const loading = load();
  if (!isFresh()) return loading;
  if (entries.size >= ENTRIES_MAX) entries.delete(entries.keys().next().value!);
  entries.set(key, loading);
  // What does not exist is not remembered: its creation would be, but names can be tried without end.
  const forget = () => entries.get(key) === loading && entries.delete(key);
  loading.then((value) => value === undefined && forget(), forget);
  return loading;
}
