import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { appendFile, mkdir, rm, truncate, unlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import type { StorageDriver, VolumeRef } from '../../src/drivers/storage/contract.ts';
import { system } from '../support/filesystem.ts';
import { seededRandom, testSeed } from '../support/random.ts';
import { describeStorage, OTHER_OWNER, OWNER } from '../support/storage-target.ts';
import { readTree, writeTree } from '../support/tree.ts';

/** Something that no work on a volume may read, change or remove. Lies beside the volumes, on the same filesystem. */
function plantSecret(root: string): { directory: string; intact: () => void } {
  const directory = join(root, '..', 'secret');
  if (!existsSync(directory)) {
    writeTree(directory, { 'key/value': 'secret of the host', value: 'secret of the host' });
    chmodSync(directory, 0o755);
  }
  const before = readTree(directory);
  return {
    directory,
    intact: () => {
      assert.deepEqual(readTree(directory), before);
      for (const path of ['', 'key', 'value', 'key/value']) assert.equal(lstatSync(join(directory, path)).uid, 0);
    },
  };
}

function contentsOf(driver: StorageDriver, volume: VolumeRef): string {
  return JSON.stringify(readTree(driver.path(volume)));
}

/** Swaps `base` of a volume for a link and back, as fast as it can, as the volume's owner. Call the result to end it. */
async function startSwapping(path: string, outside: string): Promise<() => Promise<void>> {
  const script = `echo ready; while :; do mv base aside && ln -s '${outside}' base; rm -f base; mv aside base; done 2>/dev/null`;
  const child: ChildProcess = spawn('/bin/sh', ['-c', script], {
    ...OWNER,
    cwd: path,
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  });
  await new Promise((resolve) => child.stdout!.once('data', resolve));
  return async () => {
    const ended = new Promise((resolve) => child.once('close', resolve));
    process.kill(-child.pid!, 'SIGKILL');
    await ended;
  };
}

describeStorage('a hostile volume', (target) => {
  const made = (id: string, files: Record<string, string | Buffer> = { 'base/1/2': 'rows' }) =>
    target().driver.ensureCreated(id, async (path) => writeTree(path, files), OWNER);

  test('with a link, a pipe or a socket in it is not cloned, is measured, and is deleted without a step outside', async () => {
    const { driver, root } = target();
    const secret = plantSecret(root);
    const server = createServer();
    const plants: Record<string, (path: string) => Promise<unknown>> = {
      'pg_tblspc/16400': async (path) => symlinkSync(secret.directory, path),
      'base/1/3': async (path) => symlinkSync(join(secret.directory, 'value'), path),
      'base/dangling': async (path) => symlinkSync('nowhere', path),
      'base/pipe': (path) => system('mkfifo', path),
      'base/device': (path) => system('mknod', path, 'c', '1', '5'),
      'base/socket': (path) => new Promise<void>((resolve) => server.listen(path, resolve)),
    };
    for (const [name, plant] of Object.entries(plants)) {
      const source = await made('planted', { 'base/1/2': 'rows', 'pg_tblspc/x': '' });
      const path = join(driver.path(source), name);
      await plant(path);
      lchownSync(path, OWNER.uid, OWNER.gid);
      await assert.rejects(driver.ensureCloned(source, 'planted-clone', { owner: OTHER_OWNER }), (error: Error) => {
        assert.match(error.message, /the volume cannot be used/);
        assert.ok(error.message.includes(name), error.message);
        return true;
      });
      assert.deepEqual((await driver.list()).includes('planted-clone'), false);
      assert.equal((await driver.measure(source)).logical_bytes, 4);
      await driver.ensureDeleted('planted');
      secret.intact();
    }
    await new Promise((resolve) => server.close(resolve));
  });

  test('with a link where nothing is to be copied from is cloned without it', async () => {
    const { driver, root } = target();
    const secret = plantSecret(root);
    const source = await made('left-out', { 'pg_replslot/x/state': 'slot', PG_VERSION: '17\n' });
    symlinkSync(secret.directory, join(driver.path(source), 'pg_replslot/link'));
    symlinkSync(secret.directory, join(driver.path(source), 'postmaster.pid'));
    const selection = { empty_directories: ['pg_replslot'], omit_files: ['postmaster.pid'] };
    const clone = await driver.ensureCloned(source, 'left-out-clone', { ...selection, owner: OTHER_OWNER });
    assert.deepEqual(Object.keys(readTree(driver.path(clone))), ['PG_VERSION', 'pg_replslot']);
    secret.intact();
    await driver.ensureDeleted('left-out');
    symlinkSync(secret.directory, join(driver.path(clone), 'pg_wal'));
    await assert.rejects(
      driver.ensureCloned(clone, 'through-a-link', { empty_directories: ['pg_wal', 'pg_wal/archive_status'] }),
      /"pg_wal" is a symbolic link/,
    );
    secret.intact();
    assert.ok(!existsSync(join(secret.directory, 'archive_status')));
  });

  test('that is itself replaced by a link is not followed', async () => {
    const { driver, root } = target();
    const secret = plantSecret(root);
    symlinkSync(secret.directory, join(root, 'volumes', 'link'));
    const ref = { driver: driver.name, id: 'link' };
    await assert.rejects(driver.measure(ref));
    await assert.rejects(driver.ensureCloned(ref, 'link-clone'));
    await driver.ensureDeleted('link');
    secret.intact();
  });

  test('that nests without end, or has names that cannot be said, is refused and deleted', async () => {
    const { driver } = target();
    const source = await made('nested');
    const path = driver.path(source);
    await system(
      'sh',
      '-c',
      `cd '${path}' && for i in $(seq 600); do mkdir nested-deep && cd -P ./nested-deep || exit 0; done`,
    );
    await assert.rejects(driver.ensureCloned(source, 'nested-clone'), /directories deep/);
    await driver.ensureDeleted('nested');
    assert.ok(!existsSync(path));

    const named = await made('named', { ['n'.repeat(255)]: 'x', 'back\\slash new\nline': 'y' });
    const clone = await driver.ensureCloned(named, 'named-clone');
    assert.deepEqual(readTree(driver.path(clone)), readTree(driver.path(named)));
    writeFileSync(Buffer.concat([Buffer.from(`${driver.path(named)}/`), Buffer.from([0xff, 0xfe])]), 'z');
    await assert.rejects(driver.ensureCloned(named, 'unsaid-clone'), /not valid UTF-8/);
    await driver.ensureDeleted('named');
    assert.equal(await driver.find('named'), undefined);
  });

  test('gives no program the rights of an owner', async () => {
    const { driver } = target();
    const source = await made('set-user-id');
    const path = join(driver.path(source), 'base/1/2');
    chmodSync(path, 0o6755);
    const clone = await driver.ensureCloned(source, 'set-user-id-clone', { owner: OTHER_OWNER });
    assert.equal(lstatSync(join(driver.path(clone), 'base/1/2')).mode & 0o7777, 0o755);
  });

  test('whose owner swaps a directory for a link meanwhile never leads a clone, a measure or a delete outside', async () => {
    const { driver, root } = target();
    const secret = plantSecret(root);
    const files = Object.fromEntries(Array.from({ length: 60 }, (_, file) => [`base/1/${file}`, 'rows']));
    const source = await made('swapped', files);
    const stop = await startSwapping(driver.path(source), secret.directory);
    try {
      for (let round = 0; round < 20; round++) {
        await driver.measure(source).then(
          ({ logical_bytes }) => assert.ok(logical_bytes <= 4 * 60),
          (error) => assert.match(error.message, /the volume cannot be used/),
        );
        const clone = await driver.ensureCloned(source, 'swapped-clone', { owner: OTHER_OWNER }).catch((error) => {
          assert.match(error.message, /the volume cannot be used/);
        });
        if (clone) assert.ok(!contentsOf(driver, clone).includes('value'));
        await driver.ensureDeleted('swapped-clone');
      }
      await driver.ensureDeleted('swapped');
    } finally {
      await stop();
    }
    secret.intact();
  });
});

describeStorage('a busy volume', (target) => {
  test('is cloned while its files come, go, grow and shrink', async () => {
    const { driver } = target();
    const seed = testSeed();
    const random = seededRandom(seed);
    console.log(`COPPICE_TEST_SEED=${seed}`);
    const files = Object.fromEntries(Array.from({ length: 200 }, (_, file) => [`base/1/${file}`, 'x'.repeat(8192)]));
    const source = await driver.ensureCreated('written', async (path) => writeTree(path, { ...files, still: 'rows' }));
    const path = driver.path(source);
    let cloning = true;
    async function write(): Promise<void> {
      while (cloning) {
        const file = join(path, 'base/1', String(Math.floor(random() * 300)));
        const action = Math.floor(random() * 4);
        if (action === 0) await unlink(file).catch(() => {});
        if (action === 1) await writeFile(file, 'y'.repeat(Math.floor(random() * 100_000)));
        if (action === 2) await appendFile(file, 'z'.repeat(8192));
        if (action === 3) await truncate(file, 0).catch(() => {});
        const directory = join(path, 'base', `new-${Math.floor(random() * 5)}`);
        if (action < 2) await mkdir(directory).catch(() => {});
        else await rm(directory, { recursive: true, force: true });
      }
    }
    const writers = Array.from({ length: 4 }, write);
    try {
      for (let round = 0; round < 15; round++) {
        const clone = await driver.ensureCloned(source, `written-${round}`);
        assert.ok(existsSync(join(driver.path(clone), 'still')));
        assert.ok((await driver.measure(source)).logical_bytes > 0);
        await driver.ensureDeleted(`written-${round}`);
      }
    } finally {
      cloning = false;
      await Promise.all(writers);
    }
  });

  test('that holds a subvolume of its owner is cloned and deleted', async () => {
    const { driver, filesystem_kind } = target();
    const source = await driver.ensureCreated('nesting', async (path) => writeTree(path, { still: 'rows' }), OWNER);
    const inner = join(driver.path(source), 'inner');
    if (filesystem_kind === 'btrfs') await system('btrfs', 'subvolume', 'create', inner);
    else mkdirSync(inner);
    writeFileSync(join(inner, 'file'), 'rows');
    chownSync(inner, OWNER.uid, OWNER.gid);
    const clone = await driver.ensureCloned(source, 'nesting-clone');
    assert.ok(existsSync(join(driver.path(clone), 'still')));
    for (const id of ['nesting', 'nesting-clone']) await driver.ensureDeleted(id);
    assert.equal(await driver.find('nesting'), undefined);
  });
});
