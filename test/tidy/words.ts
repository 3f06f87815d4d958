import type { SourceFile } from './source-tree.ts';

interface BannedWord {
  readonly pattern: RegExp;
  readonly why: string;
}

const BANNED: readonly BannedWord[] = [
  { pattern: /\b(TODO|FIXME|XXX|HACK)\b/, why: 'finish it, or leave it out' },
  { pattern: /(?<![\w.$-])\/(work|root|Users)\/\w/, why: 'a path of one machine' },
  {
    pattern: /\b(registry\.npmjs|npmjs\.org|registry\.yarnpkg|deb\.debian\.org)\b/,
    why: 'where packages come from is the business of whoever installs',
  },
  { pattern: /\bconsole\.debug\(|\bdebugger;/, why: 'left from debugging' },
  { pattern: /\b(npm_|gh[po]_|github_pat_)[A-Za-z0-9]{30}|\bAKIA[A-Z0-9]{16}\b/, why: 'looks like a credential' },
];

/** These two hold the words because they look for them. */
const OWN_FILES = new Set(['test/tidy/words.ts', 'test/tidy/words.test.ts']);

/** Words that have no place in code or documents: one sentence each. */
export function wordProblems(files: readonly SourceFile[]): string[] {
  return files
    .filter(({ path }) => !OWN_FILES.has(path))
    .flatMap(({ path, text }) =>
      text.split('\n').flatMap((line, index) =>
        BANNED.flatMap(({ pattern, why }) => {
          const found = pattern.exec(line);
          return found ? [`${path}:${index + 1} has "${found[0]}": ${why}`] : [];
        }),
      ),
    );
}
