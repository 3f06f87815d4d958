import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { createPool } from '../../src/drivers/storage/create-pool.ts';
import { attachLoopDevice, findLoopDevice } from '../../src/drivers/storage/loop-device.ts';
import { mountedAt } from '../../src/drivers/storage/mount.ts';
import {
  ensurePoolMounted,
  type PoolFilesystem,
  poolPaths,
  poolStatus,
  unmountPool,
} from '../../src/drivers/storage/pool.ts';
import { resolveStorageRoot } from '../../src/drivers/storage/storage-root.ts';
import { chooseStorage } from '../../src/main/choose-storage.ts';
import { reportStorage } from '../../src/main/storage-report.ts';
import { cannotMount, system } from '../support/filesystem.ts';

const SIZE_BYTES = 320 * 1024 * 1024;
const XFS = { size_bytes: SIZE_BYTES, filesystem: 'xfs' } as const;

describe('a pool in a file', { skip: cannotMount }, () => {
  let data_directory = '';
  beforeEach(() => {
    data_directory = realpathSync(mkdtempSync(join(tmpdir(), 'coppice-pool-')));
  });
  afterEach(async () => {
    await unmountPool(data_directory);
    rmSync(data_directory, { recursive: true });
  });

  for (const filesystem of ['xfs', 'btrfs'] as const) {
    test(`of ${filesystem} gives instant clones, and is found again by every start`, () => isPool(filesystem));
  }

  async function isPool(filesystem: PoolFilesystem): Promise<void> {
    assert.equal(await ensurePoolMounted(data_directory), undefined);
    assert.equal(await poolStatus(data_directory), undefined);
    assert.equal(await resolveStorageRoot(data_directory), join(data_directory, 'storage'));

    const { image, mount } = poolPaths(data_directory, filesystem);
    const size_bytes = SIZE_BYTES;
    assert.equal(await createPool({ data_directory, size_bytes, filesystem }), mount);
    assert.equal(await resolveStorageRoot(data_directory), mount);
    assert.deepEqual(await poolStatus(data_directory), { filesystem, image, size_bytes, mount, mounted: true });
    assert.equal((await system('findmnt', '--noheadings', '--output', 'FSTYPE', mount)).trim(), filesystem);
    // The space is taken, so that the disk cannot fill up under the pool.
    assert.ok(statSync(image).blocks * 512 >= SIZE_BYTES);
    assert.equal(statSync(image).mode & 0o777, 0o600);
    const options = (await system('findmnt', '--noheadings', '--output', 'OPTIONS', mount)).trim().split(',');
    for (const option of ['nodev', 'nosuid', 'noatime']) assert.ok(options.includes(option), option);

    const { driver } = await chooseStorage({ root: mount, reserve_bytes: 0 });
    assert.equal(driver.name, { xfs: 'reflink', btrfs: 'btrfs' }[filesystem]);
    assert.ok(driver.capabilities.instant_clone);
    const source = await driver.ensureCreated('kept', async (path) => writeFileSync(join(path, 'PG_VERSION'), '17\n'));
    const device = await mountedAt(mount);
    assert.equal(await ensurePoolMounted(data_directory), mount);
    assert.equal(await mountedAt(mount), device);

    await unmountPool(data_directory);
    await unmountPool(data_directory);
    assert.equal(await findLoopDevice(image), undefined);
    assert.equal((await poolStatus(data_directory))?.mounted, false);
    await assert.rejects(resolveStorageRoot(data_directory), /is not mounted/);
    assert.ok(!existsSync(driver.path(source)));

    // As a start leaves it that was killed between its two steps.
    const attached = await attachLoopDevice(image);
    assert.equal(await ensurePoolMounted(data_directory), mount);
    assert.equal(await mountedAt(mount), attached);
    assert.ok(existsSync(driver.path(source)));
  }

  test('is created once, with room for it, and not over volumes that it would hide', async () => {
    const create = (size_bytes: number, image?: string) => createPool({ data_directory, ...XFS, size_bytes, image });
    await assert.rejects(create(1024), /needs at least 300 MiB; 1024 bytes is too small/);
    await assert.rejects(create(1024 ** 5), /free; a pool of 1048576.0 GiB needs/);
    assert.equal(await poolStatus(data_directory), undefined);
    const volumes = join(data_directory, 'storage', 'volumes');
    mkdirSync(join(volumes, 'a'), { recursive: true });
    await assert.rejects(create(SIZE_BYTES), /holds 1 volumes already/);
    rmSync(volumes, { recursive: true });

    const elsewhere = join(data_directory, 'disk');
    mkdirSync(elsewhere);
    const image = join(elsewhere, 'large.xfs');
    // What a creation left that was killed.
    writeFileSync(`${image}.partial`, 'half');
    await create(SIZE_BYTES, image);
    assert.equal((await poolStatus(data_directory))?.image, image);
    assert.ok(!existsSync(`${image}.partial`));
    await assert.rejects(create(SIZE_BYTES), /there is a pool already/);
    await assert.rejects(create(SIZE_BYTES, image), /there is a pool already/);
    const other = createPool({ data_directory, size_bytes: SIZE_BYTES, filesystem: 'btrfs' });
    await assert.rejects(other, /there is a pool already/);
  });

  test('is not confused with something else that is mounted in its place', async () => {
    const { mount } = poolPaths(data_directory, 'xfs');
    await createPool({ data_directory, ...XFS });
    await unmountPool(data_directory);
    await system('mount', '-t', 'tmpfs', 'coppice-test', mount);
    try {
      await assert.rejects(ensurePoolMounted(data_directory), /but coppice-test is mounted there: unmount it first/);
      await assert.rejects(resolveStorageRoot(data_directory), /unmount it first/);
    } finally {
      await system('umount', mount);
    }
  });

  test('is reported with its driver and space, without changing anything', async () => {
    assert.deepEqual(await reportStorage(data_directory), { path: join(data_directory, 'storage'), pool: undefined });
    assert.ok(!existsSync(join(data_directory, 'storage')));
    const mount = await createPool({ data_directory, ...XFS });
    const { path, pool, state } = await reportStorage(data_directory);
    assert.deepEqual([path, pool?.mounted, state?.driver, state?.volumes], [mount, true, 'reflink', 0]);
    assert.ok(state!.free_bytes <= state!.total_bytes && state!.reserve_bytes > 0);
    assert.deepEqual(
      state!.passed_over.map(({ name }) => name),
      ['btrfs'],
    );
    await unmountPool(data_directory);
    const unmounted = await reportStorage(data_directory);
    assert.deepEqual([unmounted.pool?.mounted, unmounted.state], [false, undefined]);
  });
});
