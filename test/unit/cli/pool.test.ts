import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Command } from 'commander';
import { type PoolContext, type PoolReport, registerPool } from '../../../src/cli/pool.ts';

const GIB = 1024 ** 3;

async function run(args: readonly string[], report: PoolReport = { path: '/data/storage' }) {
  const printed: string[] = [];
  const asked: unknown[] = [];
  const context: PoolContext = {
    dataDirectory: () => '/data',
    createPool: async (options) => {
      asked.push(options);
      return '/data/pool/mount';
    },
    unmountPool: async (data_directory) => {
      asked.push({ unmounted: data_directory });
    },
    report: async () => report,
    print: (text) => printed.push(text),
  };
  const program = new Command().exitOverride().configureOutput({ writeErr: () => {} });
  registerPool(program, context);
  for (const command of program.commands.flatMap((pool) => [pool, ...pool.commands])) {
    command.exitOverride().configureOutput({ writeErr: () => {} });
  }
  await program.parseAsync(['pool', ...args], { from: 'user' });
  return { text: printed.join(''), asked };
}

describe('coppice pool', () => {
  test('creates a pool of the size given, in the file given', async () => {
    const sizes: [string, number][] = [
      ['20G', 20 * GIB],
      ['1.5TiB', 1.5 * 1024 * GIB],
      ['500m', 500 * 1024 ** 2],
      ['4294967296', 4 * GIB],
    ];
    for (const [size, size_bytes] of sizes) {
      const { asked, text } = await run(['create', '--size', size, '--path', '/disk/pool.xfs']);
      assert.deepEqual(asked, [{ data_directory: '/data', size_bytes, filesystem: 'xfs', image: '/disk/pool.xfs' }]);
      assert.match(text, /mounted at \/data\/pool\/mount/);
    }
  });

  test('creates one of the filesystem given, and of no other than it can', async () => {
    const { asked } = await run(['create', '--size', '20G', '--filesystem', 'btrfs']);
    const pool = { size_bytes: 20 * GIB, filesystem: 'btrfs', image: undefined };
    assert.deepEqual(asked, [{ data_directory: '/data', ...pool }]);
    await assert.rejects(run(['create', '--size', '20G', '--filesystem', 'zfs']), /Allowed choices are xfs, btrfs/);
  });

  test('refuses what is no size', async () => {
    for (const size of ['', '-1G', '0', 'much', '1X', '1G1', '9999999T']) {
      await assert.rejects(run(['create', '--size', size]), /is not a size; write it like/);
    }
    await assert.rejects(run(['create']), /--size/);
  });

  test('unmounts the pool of the data directory', async () => {
    assert.deepEqual((await run(['unmount'])).asked, [{ unmounted: '/data' }]);
  });

  test('shows where volumes lie and what is left there', async () => {
    assert.equal((await run(['status'])).text, 'path     /data/storage\nvolumes  none yet\n');
    const pool = { image: '/data/pool/pool.xfs', size_bytes: 20 * GIB, mounted: true };
    const space = { total_bytes: 20 * GIB, free_bytes: 1.5 * GIB, reserve_bytes: GIB };
    const passed_over = [{ name: 'btrfs', problem: '/data/pool/mount is not on Btrfs' }];
    const state = { driver: 'reflink', passed_over, ...space, volumes: 3 };
    const { text } = await run(['status'], { path: '/data/pool/mount', pool, state });
    for (const line of [
      'driver     reflink',
      'pool       /data/pool/pool.xfs (20 GiB)',
      'free       1.5 GiB',
      'reserve    1 GiB',
      'volumes    3',
      'not btrfs  /data/pool/mount is not on Btrfs',
    ]) {
      assert.ok(text.split('\n').includes(line), `${line} in\n${text}`);
    }
    const unmounted = await run(['status'], { path: '/data/pool/mount', pool: { ...pool, mounted: false } });
    assert.match(unmounted.text, /\(20 GiB, not mounted\)/);
  });
});
