import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { cannotMount, mountFilesystem } from '../support/filesystem.ts';
import { describeStorage, OWNER, STORAGE_DRIVERS, type StorageTarget } from '../support/storage-target.ts';
import { readTree, writeManyFiles, writeTree } from '../support/tree.ts';

const PROGRAM = fileURLToPath(new URL('../support/clone-volume.ts', import.meta.url));
const MIB = 1024 * 1024;

interface Cloning {
  readonly child: ChildProcess;
  /** Resolves when the program has printed the word; rejects when it ends without. */
  printed(word: string): Promise<void>;
  readonly ended: Promise<void>;
}

function startCloning({ kind, root }: StorageTarget, args: readonly string[], env: NodeJS.ProcessEnv = {}): Cloning {
  const [source, id, ...rest] = args as [string, string];
  const child = spawn(process.execPath, [PROGRAM, kind, root, source, id, ...rest], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const printed = (word: string) =>
    new Promise<void>((resolve, reject) => {
      const look = () => text.includes(word) && resolve();
      child.stdout!.on('data', look);
      ended.then(() => (text.includes(word) ? resolve() : reject(new Error(`ended without "${word}"`))));
      look();
    });
  child.stdout!.on('data', (chunk) => {
    text += chunk;
  });
  return { child, printed, ended };
}

/** Where the unfinished copies of a volume are. */
function unfinishedOf(root: string, id: string): string[] {
  const partial = join(root, `volumes/.${id}.partial`);
  try {
    return readdirSync(partial).map((name) => join(partial, name));
  } catch {
    return [];
  }
}

describeStorage('a clone that is killed', (target) => {
  test('while it is prepared is listed, and made whole by the next call', async () => {
    const { driver, root } = target();
    const source = await driver.ensureCreated('source', async (path) => writeManyFiles(path), OWNER);
    const { child, printed, ended } = startCloning(target(), ['source', 'killed', 'hold']);
    await printed('prepare');
    child.kill('SIGKILL');
    await ended;
    assert.equal(await driver.find('killed'), undefined);
    assert.deepEqual(await driver.list(), ['killed', 'source']);
    assert.equal(unfinishedOf(root, 'killed').length, 1);
    const clone = await driver.ensureCloned(source, 'killed');
    assert.deepEqual(readTree(driver.path(clone)), readTree(driver.path(source)));
    assert.ok(!existsSync(join(root, 'volumes/.killed.partial')));
    for (const id of ['killed', 'source']) await driver.ensureDeleted(id);
  });

  test('at any moment is not there, or is whole', async () => {
    const { driver, root } = target();
    const source = await driver.ensureCreated('source', async (path) => writeManyFiles(path), OWNER);
    const tree = readTree(driver.path(source));
    // Each round waits for a later sign of life, so that the kill comes at another moment.
    const signs = ['', 'base', 'base/1/100', 'base/3'];
    for (const [round, sign] of signs.entries()) {
      const id = `killed-${round}`;
      const { child, ended } = startCloning(target(), ['source', id]);
      let over = false;
      ended.then(() => {
        over = true;
      });
      const seen = () =>
        existsSync(join(root, 'volumes', id)) || unfinishedOf(root, id).some((path) => existsSync(join(path, sign)));
      while (!over && !seen()) await delay(1);
      child.kill('SIGKILL');
      await ended;
      const found = await driver.find(id);
      if (found) assert.deepEqual(readTree(driver.path(found)), tree);
      assert.deepEqual(readTree(driver.path(await driver.ensureCloned(source, id))), tree);
      await driver.ensureDeleted(id);
    }
    assert.deepEqual(await driver.list(), ['source']);
    await driver.ensureDeleted('source');
  });
});

describeStorage(
  'a volume whose machine loses power',
  (target) => {
    test('is whole when the call had returned, and deleted when that had', async () => {
      const { driver, filesystem, root } = target();
      const source = await driver.ensureCreated('source', async (path) => writeManyFiles(path), OWNER);
      await driver.ensureCreated('deleted', async (path) => writeTree(path, { PG_VERSION: '17\n' }));
      // What others have not synced stays unwritten: a clone does not wait for it.
      writeFileSync(join(root, 'neighbour'), Buffer.alloc(20 * MIB, 'x'));
      const clone = await driver.ensureCloned(source, 'clone', {
        prepare: async (path) =>
          writeTree(path, { 'base/0/1': 'changed', backup_label: 'new', 'pg_wal/1': Buffer.alloc(MIB, 'w') }),
      });
      await driver.ensureDeleted('deleted');
      const image = await filesystem.copyImage();
      const [made, expected] = [readTree(driver.path(source)), readTree(driver.path(clone))];
      assert.equal(readFileSync(join(driver.path(clone), 'base/0/1'), 'utf8'), 'changed');
      await filesystem.replaceBy(image);
      assert.deepEqual(readTree(driver.path(clone)), expected);
      assert.deepEqual(readTree(driver.path(source)), made);
      assert.equal(await driver.find('deleted'), undefined);
    });
  },
  { size_bytes: 400 * MIB, only: (name) => name !== 'copy-tmpfs' },
);

describe('what is not ordered by its filesystem', { skip: cannotMount }, () => {
  for (const [kind, filesystem_kind] of [
    ['copy', 'ext4'],
    ['reflink', 'btrfs'],
  ] as const) {
    test(`is synced before it gets its name: ${kind}-${filesystem_kind}`, async () => {
      const filesystem = await mountFilesystem(filesystem_kind, 256 * MIB);
      const tools = mkdtempSync(join(tmpdir(), 'coppice-tools-'));
      try {
        const root = join(filesystem.path, 'storage');
        const log = join(tools, 'log');
        const real = process.env.PATH;
        writeFileSync(
          join(tools, 'sync'),
          `#!/bin/sh\nls -A '${root}/volumes' | tr '\\n' ' ' >> '${log}'\nPATH='${real}' exec sync "$@"\n`,
        );
        chmodSync(join(tools, 'sync'), 0o755);
        const driver = await STORAGE_DRIVERS[kind]({ root, reserve_bytes: 0 });
        await driver.ensureCreated('source', async (path) => writeTree(path, { 'base/1': 'rows' }));
        const target = { name: kind, kind, filesystem_kind, filesystem, root, driver };
        const { printed, ended } = startCloning(target, ['source', 'clone'], { PATH: `${tools}:${real}` });
        await printed('cloned');
        await ended;
        assert.equal(readFileSync(log, 'utf8'), '.clone.partial source ');
        assert.deepEqual(await driver.list(), ['clone', 'source']);
      } finally {
        rmSync(tools, { recursive: true });
        await filesystem.remove();
      }
    });
  }
});
