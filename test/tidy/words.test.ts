import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertNone } from './assert-none.ts';
import { readSourceTree, sample } from './source-tree.ts';
import { wordProblems } from './words.ts';

const problemsOf = (text: string): string[] => wordProblems([sample('src/a.ts', text)]);

describe('words that have no place here', () => {
  test('are not in the whole project', () => {
    assertNone(wordProblems(readSourceTree()));
  });

  const banned = [
    '// TODO: later',
    '/* FIXME */',
    "const path = '/work/area/x';",
    'see /root/notes.md',
    'https://registry.npmjs.org/pg',
    'console.debug(x)',
    `const token = 'ghp_${'a1'.repeat(18)}';`,
  ];
  for (const text of banned) test(`refuses ${text}`, () => assert.equal(problemsOf(text).length, 1));

  test('lets ordinary text be', () => {
    assert.deepEqual(problemsOf('the todo list of a hackneyed loop; docs/work/x; $HOME/root/a; console.log(x)'), []);
  });
});
