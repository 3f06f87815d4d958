/** A library that computes can load at their start. Each is in every distribution that Coppice runs. */
export interface PreloadLibrary {
  readonly name: string;
  readonly description: string;
  /** Loaded unless a project says otherwise. */
  readonly is_default: boolean;
  /** Postgres major version -> version of the extension that belongs to it. */
  readonly versions: Readonly<Record<number, string>>;
}

/** Without `auto_explain`: it writes statements, and what is secret in them, into the log. */
export const PRELOAD_LIBRARIES: readonly PreloadLibrary[] = [
  {
    name: 'pg_stat_statements',
    description: 'Counts statements, and the time and blocks that they take',
    is_default: true,
    versions: { 15: '1.10', 16: '1.10', 17: '1.11', 18: '1.12' },
  },
  {
    name: 'pg_prewarm',
    description: 'Reads in again, after a start, what was in memory before it',
    is_default: false,
    versions: { 15: '1.2', 16: '1.2', 17: '1.2', 18: '1.2' },
  },
];

/** What a project says of them; fields as in the API. */
export interface PreloadChoice {
  /** True if left out. */
  readonly use_defaults?: boolean;
  readonly enabled_libraries?: readonly string[];
}

/** The first of the names that is no library of the list. */
export const unknownLibrary = (names: readonly string[] = []): string | undefined =>
  names.find((name) => !PRELOAD_LIBRARIES.some((library) => library.name === name));

/** The libraries that computes load, in the order of the list. */
export function preloadedLibraries({ use_defaults = true, enabled_libraries = [] }: PreloadChoice = {}): string[] {
  const chosen = PRELOAD_LIBRARIES.filter(
    ({ name, is_default }) => (use_defaults && is_default) || enabled_libraries.includes(name),
  );
  return chosen.map(({ name }) => name);
}
