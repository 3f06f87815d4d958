import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { assertNone } from './assert-none.ts';
import { dependencyProblems, type Manifest } from './dependencies.ts';
import { ROOT } from './source-tree.ts';

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const DECISION = '| `a`, `b` | sums | the smallest | MIT |\n';

describe('dependencies', () => {
  test('are pinned and explained', () => {
    const manifest = JSON.parse(read('package.json')) as Manifest;
    assertNone(dependencyProblems(manifest, read('docs/decisions/2026-11-20-dependencies.md')));
  });

  test('with a row each are fine, several to a row too', () => {
    const manifest = { dependencies: { a: '1.0.0' }, devDependencies: { b: 'npm:real-b@2.0.0-beta.1' } };
    assert.deepEqual(dependencyProblems(manifest, DECISION), []);
  });

  test('without a row, with an unfinished row or with a range are refused', () => {
    const two = { a: '1.0.0', b: '1.0.0' };
    assert.match(dependencyProblems({ dependencies: { ...two, c: '1.0.0' } }, DECISION)[0]!, /c has no row/);
    assert.match(
      dependencyProblems({ dependencies: { a: '1.0.0' } }, '| `a` | sums | | MIT |\n')[0]!,
      /needs what for/,
    );
    assert.match(dependencyProblems({ dependencies: { ...two, b: '^1.0.0' } }, DECISION)[0]!, /b is not pinned/);
  });

  test('that are gone leave no row', () => {
    assert.match(dependencyProblems({ dependencies: { a: '1.0.0' } }, DECISION)[0]!, /b has a row/);
  });
});
