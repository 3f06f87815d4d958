import type { Module } from './module.ts';

/** In the comment right above an export: only tests import it, and there is a reason that the comment gives. */
export const FOR_TESTS_TAG = '@for-tests';

const isProduct = (path: string): boolean => /^(src|bin|bench|scripts)\//.test(path);

interface Uses {
  readonly product: ReadonlySet<string>;
  readonly tests: ReadonlySet<string>;
}

const key = (path: string, name: string): string => `${path}#${name}`;

function collectUses(modules: readonly Module[]): Uses {
  const product = new Set<string>();
  const tests = new Set<string>();
  for (const { path, imports } of modules) {
    for (const { path: target, names } of imports) {
      if (target === undefined) continue;
      for (const name of names) (isProduct(path) ? product : tests).add(key(target, name));
    }
  }
  return { product, tests };
}

/** A type may be exported for whoever takes apart what another export of the file gives. */
function describesAnotherExport(text: string, name: string): boolean {
  return (text.match(new RegExp(`\\b${name}\\b`, 'g')) ?? []).length > 1;
}

/** Exports of src/ that nothing imports, or that only tests do: one sentence each. */
export function deadExportProblems(modules: readonly Module[]): string[] {
  const { product, tests } = collectUses(modules);
  const used = (uses: ReadonlySet<string>, path: string, name: string): boolean =>
    uses.has(key(path, name)) || uses.has(key(path, '*'));
  return modules
    .filter(({ path }) => path.startsWith('src/'))
    .flatMap(({ path, text, exports }) =>
      exports.flatMap(({ name, isType, line, comment }) => {
        if (used(product, path, name) || (isType && describesAnotherExport(text, name))) return [];
        if (!used(tests, path, name)) return [`${path}:${line} nothing imports ${name}`];
        return comment.includes(FOR_TESTS_TAG) ? [] : [`${path}:${line} only tests import ${name}`];
      }),
    );
}
