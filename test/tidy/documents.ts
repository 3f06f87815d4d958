import { posix } from 'node:path';
import type { SourceFile } from './source-tree.ts';

export const isDocument = ({ path }: SourceFile): boolean => path.endsWith('.md');

/** The text without fenced blocks and code spans; lines stay where they are. */
function prose(text: string): string {
  return text
    .replace(/^(```|~~~)[\s\S]*?^\1.*$/gm, (block) => block.replace(/[^\n]/g, ''))
    .replace(/`[^`\n]*`/g, (span) => ' '.repeat(span.length));
}

/** The anchor that a heading gets: lower case, words joined by hyphens, other signs dropped. */
function anchor(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-');
}

function anchorsOf(text: string): Set<string> {
  const withoutBlocks = text.replace(/^(```|~~~)[\s\S]*?^\1.*$/gm, '');
  return new Set([...withoutBlocks.matchAll(/^#{1,6} (.+)$/gm)].map(([, heading]) => anchor(heading ?? '')));
}

function linkProblem(path: string, link: string, files: ReadonlyMap<string, string>): string | undefined {
  if (/^[a-z][a-z0-9+.-]*:/i.test(link)) return undefined;
  const [target = '', fragment] = link.split('#');
  const resolved = target === '' ? path : posix.join(posix.dirname(path), target);
  const text = files.get(resolved);
  if (text === undefined) {
    const isDirectory = [...files.keys()].some((known) => known.startsWith(`${resolved.replace(/\/$/, '')}/`));
    return isDirectory ? undefined : `${path} links to ${link}, which is not there`;
  }
  if (fragment && resolved.endsWith('.md') && !anchorsOf(text).has(fragment)) {
    return `${path} links to ${link}, which has no such heading`;
  }
  return undefined;
}

/** Documents without exactly one title, and relative links that lead nowhere. `files` holds every file of the project. */
export function documentProblems(files: readonly SourceFile[]): string[] {
  const texts = new Map(files.map(({ path, text }) => [path, text]));
  return files.filter(isDocument).flatMap(({ path, text }) => {
    const plain = prose(text);
    const titles = plain.match(/^# .+$/gm)?.length ?? 0;
    const problems = titles === 1 ? [] : [`${path} has ${titles} titles; a document has one`];
    for (const [, link = ''] of plain.matchAll(/\]\(([^()\s]+)\)/g)) {
      const problem = linkProblem(path, link, texts);
      if (problem) problems.push(problem);
    }
    return problems;
  });
}
