import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { assertNone } from './assert-none.ts';
import { type Lockfile, lockfileProblems } from './lockfile.ts';
import { ROOT } from './source-tree.ts';

const readLockfile = (): Lockfile => JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as Lockfile;

describe('the lockfile', () => {
  test('holds every platform and no addresses', () => {
    assertNone(lockfileProblems(readLockfile()));
  });

  test('that lacks a package for one platform is refused', () => {
    const parser = { version: '1.0.0', optionalDependencies: { '@parser/linux': '1.0.0', '@parser/darwin': '1.0.0' } };
    const packages = { 'node_modules/parser': parser, 'node_modules/@parser/linux': { version: '1.0.0' } };
    assert.deepEqual(lockfileProblems({ packages }), ['node_modules/parser lacks its optional package @parser/darwin']);
  });

  test('finds an optional package beside, below and above its user', () => {
    const user = { optionalDependencies: { b: '1' } };
    for (const place of [
      'node_modules/x/node_modules/a/node_modules/b',
      'node_modules/x/node_modules/b',
      'node_modules/b',
    ]) {
      assert.deepEqual(
        lockfileProblems({ packages: { 'node_modules/x/node_modules/a': user, [place]: {} } }),
        [],
        place,
      );
    }
  });

  test('that carries an address is refused', () => {
    const packages = { 'node_modules/a': { resolved: 'https://packages.example.com/a.tgz' } };
    assert.equal(lockfileProblems({ packages }).length, 1);
  });
});
