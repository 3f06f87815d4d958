import { globSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** One text file of the project. */
export interface SourceFile {
  /** Relative to the project, with forward slashes. */
  readonly path: string;
  readonly text: string;
}

export const ROOT = join(import.meta.dirname, '..', '..');

const NOT_OURS = new Set(['node_modules', '.git', '.coppice', 'results', 'dist', 'coverage']);
const TEXT = /(^|\/)(LICENSE|\.ci\/run|\.gitignore|\.npmrc)$|\.(ts|tsx|mjs|js|json|md|sql|sh|css|html|ya?ml|service)$/;

/** Every text file of the project but the lockfile, sorted by path. */
export function readSourceTree(root: string = ROOT): SourceFile[] {
  const paths = globSync(['*', '.ci/**', '{bin,src,test,bench,scripts,docs,console,deploy}/**'], {
    cwd: root,
    exclude: (path) => path.split('/').some((part) => NOT_OURS.has(part)),
  });
  return paths
    .filter((path) => TEXT.test(path) && path !== 'package-lock.json' && statSync(join(root, path)).isFile())
    .sort()
    .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));
}

export const isCode = ({ path }: SourceFile): boolean => /\.(ts|tsx|mjs)$/.test(path);

/** A file for a rule's own test. */
export const sample = (path: string, text: string): SourceFile => ({ path, text });
