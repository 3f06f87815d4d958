import assert from 'node:assert/strict';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { createDirectoryObjects } from '../../src/drivers/objects/directory/driver.ts';
import { chunksBelow } from '../../src/engine/objects/chunks.ts';
import { putSealed } from '../../src/engine/objects/sealed.ts';
import { chunksOf, fetchVolume, putVolume, readStoredVolume } from '../../src/engine/objects/volumes.ts';
import { describeStorage, OTHER_OWNER, OWNER } from '../support/storage-target.ts';
import { readTree, writeTree } from '../support/tree.ts';

const MIB = 1024 * 1024;

describeStorage('a volume in object storage', (target) => {
  let root: string;
  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'objects-'));
  });
  after(() => rm(root, { recursive: true, force: true }));

  /** Small files, one of more than a chunk, one with a hole, empty ones. */
  const files = (): Record<string, Buffer> => ({
    PG_VERSION: Buffer.from('17\n'),
    'base/1/2': Buffer.alloc(3 * MIB + 17, 'rows '),
    'base/1/3': Buffer.concat([Buffer.alloc(2 * MIB), Buffer.from('end')]),
    'base/1/empty': Buffer.alloc(0),
    ...Object.fromEntries(
      Array.from({ length: 300 }, (_, index) => [`small/${index}`, Buffer.alloc(8192, `${index}`)]),
    ),
  });
  const make = (id: string, contents: Record<string, Buffer>) =>
    target().driver.ensureCreated(id, async (path) => writeTree(path, contents), OWNER);
  const place = (name: string) => {
    const objects = createDirectoryObjects({ root });
    const prefix = `${target().name}-${name}/`;
    return { objects, chunks: chunksBelow(objects, prefix), key: `${prefix}volume` };
  };

  test('is told entry by entry, and read in pieces', async () => {
    const { driver } = target();
    const ref = await make('told', files());
    const entries = await driver.entries(ref);
    assert.deepEqual(
      entries.find(({ path }) => path === 'base/1/2'),
      {
        path: 'base/1/2',
        kind: 'file',
        mode: 0o600,
        bytes: 3 * MIB + 17,
      },
    );
    const at = (path: string) => entries.findIndex((entry) => entry.path === path);
    assert.ok(at('base') < at('base/1') && at('base/1') < at('base/1/2'));
    assert.equal((await driver.read(ref, 'base/1/2', 3 * MIB, MIB)).length, 17);
    assert.equal((await driver.read(ref, 'base/1/2', 5, 5)).toString(), 'rows ');
    await assert.rejects(driver.read(ref, '../told/PG_VERSION', 0, 1), /not a path below a volume/);
    await driver.ensureDeleted('told');
  });

  test('is not read through a link that its owner put there', async () => {
    const { driver } = target();
    const ref = await make('hostile', { PG_VERSION: Buffer.from('17\n'), 'kept/file': Buffer.from('x') });
    await symlink('/etc', join(driver.path(ref), 'etc'));
    await symlink('/etc/hostname', join(driver.path(ref), 'name'));
    await assert.rejects(driver.entries(ref), /symbolic link/);
    await assert.rejects(driver.read(ref, 'etc/hostname', 0, 1), /link or a special file/);
    await assert.rejects(driver.read(ref, 'name', 0, 1), /link or a special file/);
    await driver.ensureDeleted('hostile');
  });

  test('comes back as it was, to another owner', async () => {
    const { driver } = target();
    const ref = await make('sent', files());
    const there = place('whole');
    const bytes = await putVolume(driver, ref, there);
    assert.equal((await readStoredVolume(there)).bytes, bytes);
    const back = await fetchVolume(driver, { ...there, id: 'fetched', owner: OTHER_OWNER });
    assert.deepEqual(readTree(driver.path(back)), readTree(driver.path(ref)));
    for (const id of ['sent', 'fetched']) await driver.ensureDeleted(id);
  });

  test('costs only what is new in it', async () => {
    const { driver } = target();
    const first = await make('before', files());
    const there = place('shared');
    await putVolume(driver, first, there);
    const changed = { ...files(), 'base/1/2': Buffer.concat([files()['base/1/2']!, Buffer.from('more')]) };
    const second = await make('after', changed);
    const again = { ...there, chunks: chunksBelow(there.objects, `${target().name}-shared/`), key: `${there.key}-2` };
    await putVolume(driver, second, again);
    assert.ok(again.chunks.sent_bytes < 64 * 1024, `${again.chunks.sent_bytes} bytes`);
    const [one, two] = [await chunksOf(there), await chunksOf(again)];
    assert.ok([...two].filter((name) => !one.has(name)).length <= 2);
    for (const id of ['before', 'after']) await driver.ensureDeleted(id);
  });

  test('is not there at all when a piece of it is missing or damaged', async () => {
    const { driver } = target();
    const ref = await make('damaged', files());
    const there = place('damaged');
    await putVolume(driver, ref, there);
    const [name] = await chunksOf(there);
    const key = `${target().name}-damaged/chunks/${name!.slice(0, 2)}/${name}`;
    const whole = await there.objects.get(key);
    whole[whole.length - 3]! ^= 1;
    await there.objects.put(key, whole);
    await assert.rejects(fetchVolume(driver, { ...there, id: 'never' }), { name: 'ObjectError', kind: 'damaged' });
    await there.objects.ensureRemoved([key]);
    await assert.rejects(fetchVolume(driver, { ...there, id: 'never' }), { name: 'ObjectError', kind: 'missing' });
    assert.equal(await driver.find('never'), undefined);
    assert.ok(!(await driver.list()).includes('never'));
    await driver.ensureDeleted('damaged');
  });

  test('writes nothing outside of itself, whatever the list in the storage says', async () => {
    const { driver } = target();
    const ref = await make('list', { PG_VERSION: Buffer.from('17\n') });
    const there = place('escape');
    await putVolume(driver, ref, there);
    const entries = [{ path: '../escaped', kind: 'file', mode: 0o600, pieces: [{ zeros: 1 }] }];
    await putSealed(there.objects, there.key, Buffer.from(JSON.stringify({ format: 1, bytes: 1, entries })));
    await assert.rejects(fetchVolume(driver, { ...there, id: 'escape' }), /no path below a volume/);
    await driver.ensureDeleted('list');
  });
});
