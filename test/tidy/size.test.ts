import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertNone } from './assert-none.ts';
import { readModule } from './module.ts';
import {
  COMFORTABLE_FILE_LINES,
  fileSizeProblems,
  functionSizeProblems,
  LONGEST_FILE_LINES,
  LONGEST_FUNCTION_LINES,
  lineCount,
} from './size.ts';
import { isCode, readSourceTree, sample } from './source-tree.ts';

const statements = (count: number): string => 'work();\n'.repeat(count);
const functionProblems = (text: string): string[] => functionSizeProblems([readModule(sample('src/a.ts', text))]);

describe('files and functions stay short', () => {
  const files = readSourceTree().filter(isCode);

  test('files of the whole project', (t) => {
    for (const { path, text } of files) {
      if (lineCount(text) > COMFORTABLE_FILE_LINES) t.diagnostic(`${path} grows long: ${lineCount(text)} lines`);
    }
    assertNone(fileSizeProblems(files));
  });

  test('functions of the whole project', () => {
    assertNone(functionSizeProblems(files.map(readModule)));
  });

  test('a file one line too long is refused', () => {
    assert.deepEqual(fileSizeProblems([sample('src/a.ts', statements(LONGEST_FILE_LINES))]), []);
    assert.equal(fileSizeProblems([sample('src/a.ts', statements(LONGEST_FILE_LINES + 1))]).length, 1);
  });

  test('a function one line too long is refused, whatever its form, and named', () => {
    const fits = statements(LONGEST_FUNCTION_LINES - 2);
    const long = statements(LONGEST_FUNCTION_LINES - 1);
    assert.deepEqual(functionProblems(`function fits() {\n${fits}}`), []);
    assert.match(functionProblems(`\n\nfunction long() {\n${long}}`)[0]!, /^src\/a\.ts:3 long has 71 lines/);
    assert.match(functionProblems(`const arrow = () => {\n${long}};`)[0]!, / arrow has 71 lines/);
    assert.match(functionProblems(`class A {\n method() {\n${long}}\n}`)[0]!, / method has 71 lines/);
    assert.equal(functionProblems(`test('x', () => {\n${long}});`).length, 1);
  });

  test('a group of tests may be as long as its file', () => {
    assert.deepEqual(functionProblems(`describe('x', () => {\n${statements(200)}});`), []);
    assert.deepEqual(functionProblems(`describeEach('x', () => {\n${statements(200)}});`), []);
  });
});
