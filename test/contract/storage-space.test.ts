import assert from 'node:assert/strict';
import { closeSync, existsSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { CoppiceError } from '../../src/domain/errors.ts';
import type { PoolState } from '../../src/drivers/storage/contract.ts';
import { system } from '../support/filesystem.ts';
import { describeStorage, OWNER, STORAGE_DRIVERS } from '../support/storage-target.ts';
import { readTree, writeManyFiles, writeTree } from '../support/tree.ts';

const MIB = 1024 * 1024;

const saysFull = (error: unknown): boolean => {
  assert.ok(error instanceof CoppiceError, String(error));
  assert.equal(error.kind, 'storage_full');
  assert.match(error.message, /too full for a new volume: \d+ bytes free, \d+ kept in reserve/);
  return true;
};

/** Takes all space that is left. */
function fill(path: string): void {
  const fd = openSync(path, 'a');
  try {
    for (const size of [MIB, 64 * 1024, 4096, 512]) {
      const bytes = Buffer.alloc(size, 'x');
      try {
        for (;;) writeSync(fd, bytes);
      } catch (error) {
        assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC');
      }
    }
  } finally {
    closeSync(fd);
  }
}

describeStorage(
  'a full pool',
  (target) => {
    test('takes nothing new below its reserve, and keeps what is there', async () => {
      const { kind, root, driver } = target();
      const source = await driver.ensureCreated('source', async (path) => writeTree(path, { 'base/1': 'rows' }), OWNER);
      const pool: PoolState = await driver.pool();
      const careful = await STORAGE_DRIVERS[kind]({ root, reserve_bytes: pool.free_bytes + 64 * MIB });
      await assert.rejects(careful.ensureCloned(source, 'clone'), saysFull);
      await assert.rejects(
        careful.ensureCreated('created', () => assert.fail('filled')),
        saysFull,
      );
      assert.deepEqual(await careful.list(), ['source']);
      assert.ok(!existsSync(join(root, 'volumes/.clone.partial')));
      assert.deepEqual(await careful.ensureCloned(source, 'source'), source);
      await driver.ensureDeleted('source');
    });

    test('leaves nothing of a volume that does not fit', async () => {
      const { driver } = target();
      const writeTooMuch = async (path: string) => {
        const fd = openSync(join(path, 'table'), 'a');
        try {
          for (;;) writeSync(fd, Buffer.alloc(MIB, 'x'));
        } finally {
          closeSync(fd);
        }
      };
      await assert.rejects(driver.ensureCreated('too-large', writeTooMuch), saysFull);
      const source = await driver.ensureCreated('source', async (path) => writeTree(path, { 'base/1': 'rows' }), OWNER);
      await assert.rejects(driver.ensureCloned(source, 'too-large', { prepare: writeTooMuch }), saysFull);
      await assert.rejects(
        driver.ensureCloned(source, 'too-large', {
          prepare: async (path) => {
            await system('dd', 'if=/dev/zero', `of=${join(path, 'table')}`, 'bs=1M');
          },
        }),
        saysFull,
      );
      assert.deepEqual(await driver.list(), ['source']);
      await driver.ensureDeleted('source');
    });

    test('without a byte left refuses clones, lets volumes be deleted, and works again after that', async () => {
      const { driver, root } = target();
      const source = await driver.ensureCreated('source', async (path) => writeManyFiles(path), OWNER);
      fill(join(root, 'ballast'));
      for (let round = 0; round < 3; round++) {
        // On Btrfs a little metadata still fits; what counts is that a clone is whole or is not there.
        const clone = await driver.ensureCloned(source, `clone-${round}`).catch((error) => {
          saysFull(error);
        });
        if (clone) assert.deepEqual(readTree(driver.path(clone)), readTree(driver.path(source)));
        else assert.ok(!(await driver.list()).includes(`clone-${round}`));
        await driver.ensureDeleted(`clone-${round}`);
      }
      await driver.ensureDeleted('source');
      assert.deepEqual(await driver.list(), []);
      rmSync(join(root, 'ballast'));
      await driver.ensureCreated('source', async (path) => writeManyFiles(path), OWNER);
      await driver.ensureDeleted('source');
    });
  },
  { size_bytes: 320 * MIB },
);
