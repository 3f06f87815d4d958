import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertNone } from './assert-none.ts';
import { directionProblems } from './import-direction.ts';
import { readModule } from './module.ts';
import { isCode, readSourceTree, sample } from './source-tree.ts';

const problemsOf = (path: string, text: string): string[] => directionProblems([readModule(sample(path, text))]);

describe('imports go one way', () => {
  test('in the whole project', () => {
    assertNone(directionProblems(readSourceTree().filter(isCode).map(readModule)));
  });

  const refused: [string, string, string][] = [
    ['a value', 'src/store/a.ts', "import { x } from '../api/b.ts';"],
    ['a type', 'src/store/a.ts', "import type { X } from '../actions/b.ts';"],
    ['a type written inline', 'src/store/a.ts', "export type Y = import('../engine/b.ts').X;"],
    ['a dynamic import', 'src/gateway/a.ts', "await import('../store/b.ts');"],
    ['a re-export', 'src/api/a.ts', "export { x } from '../engine/b.ts';"],
    ['a package in domain', 'src/domain/a.ts', "import { z } from 'zod';"],
    ['a concrete driver in the engine', 'src/engine/a.ts', "import { x } from '../drivers/storage/reflink/clone.ts';"],
    ['shared files of drivers in the engine', 'src/engine/a.ts', "import { x } from '../drivers/storage/layout.ts';"],
    ['another driver', 'src/drivers/storage/copy/a.ts', "import { x } from '../reflink/clone.ts';"],
    ['another kind of driver', 'src/drivers/compute/process/a.ts', "import '../../storage/contract.ts';"],
    ['a driver from the files that drivers share', 'src/drivers/storage/a.ts', "import './copy/b.ts';"],
    ['a driver in the API', 'src/api/a.ts', "import type { X } from '../drivers/storage/contract.ts';"],
    ['a room below main from bin', 'bin/coppice.ts', "import '../src/api/server.ts';"],
    ['test support from the product', 'src/main/a.ts', "import '../../test/support/b.ts';"],
    ['a room nobody knows', 'src/misc/a.ts', "import '../domain/ids.ts';"],
  ];
  for (const [what, path, text] of refused) {
    test(`refuses ${what}`, () => assert.equal(problemsOf(path, text).length, 1));
  }

  const allowed: [string, string][] = [
    ['src/engine/a.ts', "import type { X } from '../drivers/storage/contract.ts'; import '../store/b.ts';"],
    ['src/main/a.ts', "import { x } from '../drivers/storage/reflink/driver.ts';"],
    ['src/drivers/storage/copy/a.ts', "import '../layout.ts'; import './b.ts'; import '../contract.ts';"],
    ['src/domain/a.ts', "import { join } from 'node:path'; import './b.ts';"],
    ['src/gateway/pool/a.ts', "import '../../wire/b.ts'; import '../tls.ts';"],
    ['bin/coppice.ts', "import { main } from '../src/main/run.ts';"],
  ];
  for (const [path, text] of allowed) {
    test(`lets ${path} import ${text}`, () => assert.deepEqual(problemsOf(path, text), []));
  }
});
