import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  lstatSync,
  openSync,
  readFileSync,
  statSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { system } from '../support/filesystem.ts';
import { describeStorage, OTHER_OWNER, OWNER } from '../support/storage-target.ts';
import { readTree, writeManyFiles, writeTree } from '../support/tree.ts';

const MIB = 1024 * 1024;

describeStorage('a volume', (target) => {
  const made = async (id: string, files: Record<string, string | Buffer>) =>
    target().driver.ensureCreated(id, async (path) => writeTree(path, files), OWNER);

  test('is made once, owned by its owner alone, in parents that let others pass', async () => {
    const { driver } = target();
    const ref = await made('new', { PG_VERSION: '17\n', 'base/1/2': 'rows' });
    const again = await driver.ensureCreated('new', () => assert.fail('filled twice'), OTHER_OWNER);
    assert.deepEqual(again, ref);
    assert.deepEqual(await driver.find('new'), ref);
    const path = driver.path(ref);
    assert.equal(readFileSync(join(path, 'base/1/2'), 'utf8'), 'rows');
    assert.equal(lstatSync(path).mode & 0o7777, 0o700);
    assert.equal(lstatSync(dirname(path)).mode & 0o7777, 0o711);
    for (const entry of [path, join(path, 'PG_VERSION'), join(path, 'base/1')]) {
      assert.deepEqual([lstatSync(entry).uid, lstatSync(entry).gid], [OWNER.uid, OWNER.gid]);
    }
  });

  test('is filled by a program of another user', async () => {
    const { driver } = target();
    const ref = await driver.ensureCreated(
      'by-another-user',
      async (path) => {
        chownSync(path, 65_534, 65_534);
        await system('setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', 'touch', join(path, 'PG_VERSION'));
      },
      OWNER,
    );
    assert.equal(lstatSync(join(driver.path(ref), 'PG_VERSION')).uid, OWNER.uid);
  });

  test('is not there when filling it failed', async () => {
    const { driver } = target();
    const broken = new Error('initdb failed');
    await assert.rejects(
      driver.ensureCreated('unfilled', async (path) => {
        writeTree(path, { 'a/b': 'c' });
        throw broken;
      }),
      broken,
    );
    assert.equal(await driver.find('unfilled'), undefined);
    assert.ok(!(await driver.list()).includes('unfilled'));
    await made('unfilled', { PG_VERSION: '17\n' });
    await driver.ensureDeleted('unfilled');
  });

  test('is cloned with contents, modes and the new owner, and neither side sees what the other writes', async () => {
    const { driver } = target();
    const source = await made('parent', { PG_VERSION: '17\n', 'base/1/2': 'rows', 'base/1/empty': '' });
    chmodSync(join(driver.path(source), 'PG_VERSION'), 0o640);
    chmodSync(join(driver.path(source), 'base'), 0o750);
    const before = readTree(driver.path(source));
    const clone = await driver.ensureCloned(source, 'child', { owner: OTHER_OWNER });
    assert.deepEqual(readTree(driver.path(clone)), before);
    assert.equal(lstatSync(driver.path(clone)).uid, OTHER_OWNER.uid);
    assert.equal(lstatSync(join(driver.path(clone), 'base/1/2')).uid, OTHER_OWNER.uid);
    writeTree(driver.path(clone), { 'base/1/2': 'ROWS of the child', 'base/1/3': 'new' });
    writeTree(driver.path(source), { 'base/1/4': 'new' });
    assert.equal(readFileSync(join(driver.path(source), 'base/1/2'), 'utf8'), 'rows');
    assert.ok(!existsSync(join(driver.path(source), 'base/1/3')));
    assert.ok(!existsSync(join(driver.path(clone), 'base/1/4')));
    assert.deepEqual(await driver.ensureCloned(source, 'child'), clone);
    assert.equal(readFileSync(join(driver.path(clone), 'base/1/2'), 'utf8'), 'ROWS of the child');
  });

  test('is cloned for the same owner where none is named, and outlives its source', async () => {
    const { driver } = target();
    const source = await made('short-lived', { PG_VERSION: '17\n' });
    const clone = await driver.ensureCloned(source, 'survivor');
    await driver.ensureDeleted('short-lived');
    assert.equal(lstatSync(join(driver.path(clone), 'PG_VERSION')).uid, OWNER.uid);
    assert.equal(await driver.find('short-lived'), undefined);
  });

  test('is cloned without what is to be left out', async () => {
    const { driver } = target();
    const source = await made('with-slots', {
      'pg_replslot/one/state': 'slot',
      'pg_wal/000000010000000000000001': 'wal',
      'pg_wal/archive_status/1.ready': '',
      'base/postmaster.pid': 'a table',
      'postmaster.pid': '123',
    });
    const clone = await driver.ensureCloned(source, 'without-slots', {
      empty_directories: ['pg_replslot', 'pg_wal/archive_status', 'pg_stat_tmp'],
      omit_files: ['postmaster.pid'],
    });
    assert.deepEqual(Object.keys(readTree(driver.path(clone))), [
      'base',
      'base/postmaster.pid',
      'pg_replslot',
      'pg_stat_tmp',
      'pg_wal',
      'pg_wal/000000010000000000000001',
      'pg_wal/archive_status',
    ]);
    for (const path of ['../parent', '/etc', 'a/../../b', '']) {
      await assert.rejects(driver.ensureCloned(source, 'astray', { empty_directories: [path] }), /not a path below/);
    }
  });

  test('is prepared before it gets its name, and thrown away when that fails', async () => {
    const { driver } = target();
    const source = await made('to-prepare', { PG_VERSION: '17\n', 'global/pg_control': 'old' });
    const clone = await driver.ensureCloned(source, 'prepared', {
      owner: OTHER_OWNER,
      prepare: async (path) => {
        assert.equal(await driver.find('prepared'), undefined);
        writeTree(path, { backup_label: 'START WAL', 'global/pg_control': 'new' });
      },
    });
    assert.equal(readFileSync(join(driver.path(clone), 'global/pg_control'), 'utf8'), 'new');
    assert.equal(lstatSync(join(driver.path(clone), 'backup_label')).uid, OTHER_OWNER.uid);
    assert.equal(readFileSync(join(driver.path(source), 'global/pg_control'), 'utf8'), 'old');
    const broken = new Error('no such position');
    await assert.rejects(driver.ensureCloned(source, 'unprepared', { prepare: () => Promise.reject(broken) }), broken);
    assert.ok(!(await driver.list()).includes('unprepared'));
  });

  test('keeps holes and second names of files', async () => {
    const { driver } = target();
    const source = await made('sparse', { full: Buffer.alloc(MIB, 'x'), hole: Buffer.alloc(70_000, 'x') });
    truncateSync(join(driver.path(source), 'hole'), 64 * MIB);
    linkSync(join(driver.path(source), 'full'), join(driver.path(source), 'full-again'));
    const before = readTree(driver.path(source));
    const clone = await driver.ensureCloned(source, 'sparse-clone');
    assert.deepEqual(readTree(driver.path(clone)), before);
    assert.ok(statSync(join(driver.path(clone), 'hole')).blocks * 512 < MIB);
    assert.equal(statSync(join(driver.path(clone), 'full')).nlink, 2);
    assert.equal(statSync(join(driver.path(source), 'full')).nlink, 2);
  });

  test('whose data directory was copied from elsewhere, file by file, is cloned all the same', async () => {
    const { driver } = target();
    const source = await made('moved', { PG_VERSION: '17\n', 'base/1/2': 'rows' });
    const path = driver.path(source);
    await system('cp', '-a', path, `${path}.copied`);
    await driver.ensureDeleted('moved');
    await system('mv', `${path}.copied`, path);
    const before = readTree(path);
    const clone = await driver.ensureCloned(source, 'of-moved');
    assert.deepEqual(readTree(driver.path(clone)), before);
    assert.equal(lstatSync(join(driver.path(clone), 'base/1/2')).uid, OWNER.uid);
    const again = await driver.ensureCloned(clone, 'of-of-moved', { omit_files: ['PG_VERSION'] });
    assert.ok(!existsSync(join(driver.path(again), 'PG_VERSION')));
    for (const id of ['moved', 'of-moved', 'of-of-moved']) await driver.ensureDeleted(id);
  });

  test('of 1,200 files is cloned whole', async () => {
    const { driver } = target();
    const source = await driver.ensureCreated('many', async (path) => writeManyFiles(path), OWNER);
    const clone = await driver.ensureCloned(source, 'many-clone', { owner: OTHER_OWNER });
    const tree = readTree(driver.path(clone));
    assert.equal(Object.keys(tree).length, 1205);
    assert.deepEqual(tree, readTree(driver.path(source)));
    for (const id of ['many', 'many-clone']) await driver.ensureDeleted(id);
  });

  test('is deleted, however often', async () => {
    const { driver } = target();
    const ref = await made('to-delete', { 'base/1/2': 'rows' });
    await driver.ensureDeleted('to-delete');
    await driver.ensureDeleted('to-delete');
    assert.ok(!existsSync(driver.path(ref)));
    assert.equal(await driver.find('to-delete'), undefined);
    await driver.ensureDeleted('never-made');
  });

  test('that was half-made or half-deleted is listed, made anew or removed', async () => {
    const { driver, root } = target();
    const source = await made('whole', { PG_VERSION: '17\n' });
    for (const id of ['half-made', 'half-deleted', 'half-both']) {
      const [partial, deleted] = [`.${id}.partial/volume/base`, `.${id}.deleted/base`];
      if (id !== 'half-deleted') await mkdir(join(root, 'volumes', partial), { recursive: true });
      if (id !== 'half-made') await mkdir(join(root, 'volumes', deleted), { recursive: true });
      assert.ok((await driver.list()).includes(id));
      assert.equal(await driver.find(id), undefined);
    }
    await driver.ensureDeleted('half-both');
    const clones = await Promise.all(['half-made', 'half-deleted'].map((id) => driver.ensureCloned(source, id)));
    for (const clone of clones) assert.deepEqual(Object.keys(readTree(driver.path(clone))), ['PG_VERSION']);
    const names = (await driver.list()).filter((id) => id.startsWith('half-'));
    assert.deepEqual(names, ['half-deleted', 'half-made']);
  });

  test('is made once by calls at the same time', async () => {
    const { driver } = target();
    const source = await made('busy', { PG_VERSION: '17\n' });
    let prepared = 0;
    const prepare = async () => {
      prepared += 1;
    };
    const clones = await Promise.all(
      Array.from({ length: 5 }, () => driver.ensureCloned(source, 'wanted-by-many', { prepare })),
    );
    assert.equal(prepared, 1);
    assert.equal(new Set(clones.map(({ id }) => id)).size, 1);
  });

  test('is not cloned for a caller who gave up', async () => {
    const { driver } = target();
    const source = await driver.ensureCreated('long', async (path) => writeManyFiles(path), OWNER);
    const gone = new Error('deadline');
    await assert.rejects(driver.ensureCloned(source, 'given-up', { signal: AbortSignal.abort(gone) }), gone);
    const controller = new AbortController();
    const prepare = async () => controller.abort(gone);
    await assert.rejects(driver.ensureCloned(source, 'given-up', { signal: controller.signal, prepare }), gone);
    assert.ok(!(await driver.list()).includes('given-up'));
    for (const id of ['long', 'given-up']) await driver.ensureDeleted(id);
  });

  test('is measured by what is in it and by what it shares with no other', async () => {
    const { driver } = target();
    const source = await made('large', { 'base/1/2': Buffer.alloc(50 * MIB, 'row;') });
    const clone = await driver.ensureCloned(source, 'large-clone');
    const fresh = await driver.measure(clone);
    assert.equal(fresh.logical_bytes, 50 * MIB);
    assert.ok(driver.capabilities.unshared_bytes);
    const shared = driver.capabilities.instant_clone;
    if (shared) assert.ok(fresh.unshared_bytes! < MIB, `${fresh.unshared_bytes}`);
    else assert.ok(fresh.unshared_bytes! >= 50 * MIB, `${fresh.unshared_bytes}`);
    const fd = openSync(join(driver.path(clone), 'base/1/2'), 'r+');
    for (let block = 0; block < 10; block++) writeSync(fd, Buffer.alloc(MIB, 'new;'), 0, MIB, block * 4 * MIB);
    fsyncSync(fd);
    closeSync(fd);
    const changed = await driver.measure(clone);
    assert.equal(changed.logical_bytes, 50 * MIB);
    const expected = shared ? 10 * MIB : 50 * MIB;
    assert.ok(Math.abs(changed.unshared_bytes! - expected) < 2 * MIB, `${changed.unshared_bytes}`);
    for (const id of ['large', 'large-clone']) await driver.ensureDeleted(id);
  });

  test('is known by an id that is no path, to the driver that made it', async () => {
    const { driver } = target();
    for (const id of ['', '.', '..', 'a/b', '../x', '.hidden', 'a'.repeat(81), 'ü', 'a\0b', 'a b']) {
      await assert.rejects(driver.ensureDeleted(id), /is not a volume id/);
      await assert.rejects(driver.find(id), /is not a volume id/);
      assert.throws(() => driver.path({ driver: driver.name, id }), /is not a volume id/);
    }
    assert.throws(() => driver.path({ driver: 'other', id: 'a' }), /belongs to the storage driver "other"/);
    await made('a'.repeat(80), { PG_VERSION: '17\n' });
    await assert.rejects(driver.ensureCloned({ driver: driver.name, id: 'nowhere' }, 'b'), { code: 'ENOENT' });
    assert.ok(!(await driver.list()).includes('b'));
  });

  test('lies in a pool whose space is known', async () => {
    const { driver, root } = target();
    const { path, total_bytes, free_bytes, reserve_bytes } = await driver.pool();
    assert.equal(path, root);
    assert.equal(reserve_bytes, 0);
    assert.ok(total_bytes > 512 * MIB && total_bytes <= 1024 * MIB);
    assert.ok(free_bytes > 0 && free_bytes <= total_bytes);
  });
});
