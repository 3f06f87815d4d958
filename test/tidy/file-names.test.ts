import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertNone } from './assert-none.ts';
import { fileNameProblems } from './file-names.ts';
import { readSourceTree } from './source-tree.ts';

describe('files are named after what they hold', () => {
  test('in the whole project', () => {
    assertNone(fileNameProblems(readSourceTree().map(({ path }) => path)));
  });

  for (const path of ['src/api/utils.ts', 'src/api/string-helpers.ts', 'src/common/a.ts', 'src/api/CamelCase.ts']) {
    test(`refuses ${path}`, () => assert.equal(fileNameProblems([path]).length, 1));
  }

  test('lets numbers and test files be', () => {
    assert.deepEqual(fileNameProblems(['src/store/migrations/0001-first.ts', 'test/unit/a-b.test.ts']), []);
  });
});
