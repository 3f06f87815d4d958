import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertNone } from './assert-none.ts';
import { deadExportProblems } from './dead-exports.ts';
import { readModule } from './module.ts';
import { isCode, readSourceTree, sample } from './source-tree.ts';

const problemsOf = (...files: [string, string][]): string[] =>
  deadExportProblems(files.map(([path, text]) => readModule(sample(path, text))));

describe('exports are imported', () => {
  test('in the whole project', () => {
    assertNone(deadExportProblems(readSourceTree().filter(isCode).map(readModule)));
  });

  test('one that nothing imports is refused', () => {
    assert.deepEqual(problemsOf(['src/a.ts', 'export const x = 1;']), ['src/a.ts:1 nothing imports x']);
    assert.equal(problemsOf(['src/a.ts', 'export default class {}']).length, 1);
    assert.equal(problemsOf(['src/a.ts', 'export const x = 1;'], ['src/b.ts', "import './a.ts';"]).length, 1);
  });

  test('one that product code imports is fine, under any name and in any way', () => {
    for (const importing of [
      "import { x as y } from './a.ts';",
      "import * as a from './a.ts';",
      "export * from './a.ts';",
      "await import('./a.ts');",
      "type X = import('./a.ts').x;",
    ]) {
      assert.deepEqual(problemsOf(['src/a.ts', 'export const x = 1;'], ['src/b.ts', importing]), [], importing);
    }
  });

  test('one that only tests import is refused unless its comment says why', () => {
    const importing: [string, string] = ['test/unit/a.test.ts', "import { x } from '../../src/a.ts';"];
    assert.deepEqual(problemsOf(['src/a.ts', 'export const x = 1;'], importing), ['src/a.ts:1 only tests import x']);
    assert.deepEqual(problemsOf(['src/a.ts', '/** @for-tests The reference. */\nexport const x = 1;'], importing), []);
    assert.equal(problemsOf(['src/a.ts', '/** @for-tests */\nconst y = 1;\nexport const x = y;'], importing).length, 1);
  });

  test('a type that another export of its file speaks of is fine, one that stands alone is not', () => {
    assert.deepEqual(
      problemsOf(
        ['src/a.ts', 'export type A = 1; export const x: A = 1;'],
        ['src/b.ts', "import { x } from './a.ts';"],
      ),
      [],
    );
    assert.equal(problemsOf(['src/a.ts', 'export interface A { b: 1 }']).length, 1);
  });
});
