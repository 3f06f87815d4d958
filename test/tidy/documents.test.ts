import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertNone } from './assert-none.ts';
import { documentProblems } from './documents.ts';
import { readSourceTree, sample } from './source-tree.ts';

const problemsOf = (text: string): string[] =>
  documentProblems([
    sample('docs/a.md', text),
    sample('docs/b.md', '# B\n\n## Two words, joined\n'),
    sample('src/c.ts', ''),
  ]);

describe('documents', () => {
  test('of the whole project have one title and links that lead somewhere', () => {
    assertNone(documentProblems(readSourceTree()));
  });

  test('a missing or a second title is refused', () => {
    assert.equal(problemsOf('## A\n').length, 1);
    assert.equal(problemsOf('# A\n\n# B\n').length, 1);
    assert.deepEqual(problemsOf('# A\n\n```\n# a comment\n```\n'), []);
  });

  test('a link to nothing is refused, whether file or heading', () => {
    assert.match(problemsOf('# A\n[x](gone.md)')[0]!, /gone\.md, which is not there/);
    assert.match(problemsOf('# A\n[x](b.md#three)')[0]!, /no such heading/);
    assert.equal(problemsOf('# A\n[x](#nowhere)').length, 1);
  });

  test('links to files, directories, headings and other sites are fine', () => {
    assert.deepEqual(problemsOf('# A\n[x](b.md) [x](../src/c.ts) [x](../src) [x](b.md#two-words-joined) [x](#a)'), []);
    assert.deepEqual(problemsOf('# A\n[x](https://example.com/y) [x](mailto:a@example.com) `[x](gone.md)`'), []);
  });

  test('the change log says what is in each version', () => {
    const log = readSourceTree().find(({ path }) => path === 'CHANGELOG.md');
    assert.match(log?.text ?? '', /^## /m);
  });
});
