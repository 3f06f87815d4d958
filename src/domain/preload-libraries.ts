/** Libraries that every compute loads at its start; there is no choice of others. */
export interface PreloadLibrary {
  readonly name: string;
  readonly description: string;
  /** Postgres major version -> version of the extension that belongs to it. */
  readonly versions: Readonly<Record<number, string>>;
}

export const PRELOAD_LIBRARIES: readonly PreloadLibrary[] = [
  {
    name: 'pg_stat_statements',
    description: 'Counts statements, and the time and blocks that they take',
    versions: { 15: '1.10', 16: '1.10', 17: '1.11', 18: '1.12' },
  },
];

/** Whether every compute has all of these anyway. */
export const arePreloaded = (names: readonly string[] = []): boolean =>
  names.every((name) => PRELOAD_LIBRARIES.some((library) => library.name === name));
