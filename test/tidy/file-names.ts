import { posix } from 'node:path';

/** Names that say where code was put instead of what it is. */
const EMPTY_WORDS = new Set([
  'common',
  'helper',
  'helpers',
  'manager',
  'misc',
  'service',
  'services',
  'shared',
  'stuff',
  'util',
  'utils',
]);

/** Files of code whose names are not in kebab case or hold a word that says nothing. */
export function fileNameProblems(paths: readonly string[]): string[] {
  return paths
    .filter((path) => /\.(ts|tsx|mjs)$/.test(path))
    .flatMap((path) => {
      const stem = posix.basename(path).replace(/(\.test|\.d)?\.\w+$/, '');
      const problems = /^[a-z0-9]+(-[a-z0-9]+)*$/.test(stem) ? [] : [`${path}: names are in kebab case`];
      const parts = [...posix.dirname(path).split('/'), stem].flatMap((part) => part.split('-'));
      const empty = parts.find((part) => EMPTY_WORDS.has(part));
      if (empty) problems.push(`${path}: "${empty}" says nothing; name the file after what it exports`);
      return problems;
    });
}
