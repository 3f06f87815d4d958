import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { type ArchiveDriver, ArchiveError } from '../../src/drivers/archive/contract.ts';
import { createDirectoryArchive } from '../../src/drivers/archive/directory/driver.ts';
import type { ObjectInfo } from '../../src/drivers/objects/contract.ts';
import { ShippedArchive } from '../../src/engine/shipping/shipped-archive.ts';
import { accept, segmentBytes, segmentName, TIMELINE } from '../support/archive-target.ts';
import { describeObjects } from '../support/object-target.ts';

const names = (first: number, count: number) => Array.from({ length: count }, (_, index) => segmentName(first + index));
const NOW = () => new Date(Date.now() + 1000);
const LONG_AGO = new Date(0);
const isError = (kind: ArchiveError['kind'], file: string) => (error: unknown) => {
  assert.ok(error instanceof ArchiveError, String(error));
  assert.deepEqual([error.kind, error.file], [kind, file]);
  return true;
};

describeObjects('an archive in object storage', (target) => {
  let directory: string;
  let local: ArchiveDriver;
  let archive: ShippedArchive;

  const open = () =>
    new ShippedArchive({ local, objects: target().objects, records_directory: join(directory, 'packs') });
  /** What a server hands over. */
  const take = async (wanted: readonly string[]) => {
    for (const name of wanted)
      await writeFile(join(directory, 'archive', TIMELINE, 'incoming', name), segmentBytes(name));
    assert.deepEqual((await archive.takeIn(TIMELINE, accept)).refused, []);
  };
  const packs = async () => {
    const keys: string[] = [];
    for await (const { key } of target().objects.list('timelines/') as AsyncIterable<ObjectInfo>) keys.push(key);
    return keys;
  };
  const assertWhole = async (wanted: readonly string[], of: ArchiveDriver = archive) => {
    assert.deepEqual(
      (await of.list(TIMELINE)).map(({ name }) => name),
      wanted,
    );
    for (const name of wanted) assert.ok((await of.read(TIMELINE, name)).equals(segmentBytes(name)), name);
  };
  const here = async () => (await local.list(TIMELINE)).map(({ name }) => name);

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'shipped-'));
    local = createDirectoryArchive({ root: join(directory, 'archive') });
  });
  beforeEach(async () => {
    archive = open();
    await archive.ensureReady(TIMELINE);
  });
  afterEach(async () => {
    target().server?.proxy.set({ kind: 'none' });
    await archive.ensureDeleted(TIMELINE);
    await archive.ship(TIMELINE, LONG_AGO);
    assert.deepEqual(await packs(), []);
    assert.deepEqual(await readdir(join(directory, 'packs')).catch(() => []), []);
  });
  after(() => rm(directory, { recursive: true, force: true }));

  test('is sent in full packs at once, and what is left after a while', async () => {
    const wanted = names(0xf0, 70);
    await take(wanted);
    assert.deepEqual(await archive.restless(), [TIMELINE]);
    const { files, since } = await archive.ship(TIMELINE, LONG_AGO);
    assert.equal(files, 6);
    assert.ok(since! <= NOW());
    assert.deepEqual(await packs(), [`timelines/${TIMELINE}/log/${wanted[0]}-${wanted[63]}`]);
    assert.deepEqual(await archive.restless(), [TIMELINE]);
    assert.deepEqual(await archive.ship(TIMELINE, NOW()), { files: 0, since: undefined });
    assert.equal((await packs()).length, 2);
    assert.deepEqual(await archive.restless(), []);
    await archive.ship(TIMELINE, NOW());
    assert.equal((await packs()).length, 2);
    assert.deepEqual(await here(), wanted);
    await assertWhole(wanted);
  });

  test('is read from there once it is gone from here, by another process, too', async () => {
    const wanted = names(1, 5);
    await take(wanted.slice(0, 4));
    const other = open();
    await assertWhole(wanted.slice(0, 4), other);
    assert.equal(await archive.free(TIMELINE, NOW()), 0, 'nothing goes before it was confirmed');
    await archive.ship(TIMELINE, NOW());
    await take(wanted.slice(4));
    assert.equal(await archive.free(TIMELINE, LONG_AGO), 0, 'nothing goes that is too young');
    assert.equal(await archive.free(TIMELINE, NOW()), 4);
    assert.deepEqual(await here(), wanted.slice(4));
    await assertWhole(wanted);
    await assertWhole(wanted, open());
    assert.ok((await other.read(TIMELINE, wanted[0]!)).equals(segmentBytes(wanted[0]!)));
    const given = join(directory, 'given');
    await mkdir(given);
    for (const name of [wanted[0]!, wanted[4]!]) {
      await archive.copyTo(TIMELINE, name, given);
      assert.ok((await readFile(join(given, name))).equals(segmentBytes(name)));
      await assert.rejects(archive.copyTo(TIMELINE, name, given), { code: 'EEXIST' });
    }
    await assert.rejects(archive.copyTo(TIMELINE, segmentName(9), given), isError('missing', segmentName(9)));
    await assert.rejects(archive.read(TIMELINE, segmentName(9)), isError('missing', segmentName(9)));
    await rm(given, { recursive: true });
  });

  test('gives what is damaged here from there', async () => {
    const [name] = names(1, 1) as [string];
    await take([name]);
    await archive.ship(TIMELINE, NOW());
    const path = join(directory, 'archive', TIMELINE, 'log', name.slice(0, 22), name);
    const bytes = readFileSync(path);
    bytes[4711]! ^= 1;
    writeFileSync(path, bytes);
    await assert.rejects(local.read(TIMELINE, name), isError('checksum', name));
    assert.ok((await archive.read(TIMELINE, name)).equals(segmentBytes(name)));
  });

  test("does not send a copy of a server's last segment", async () => {
    const [name] = names(1, 1) as [string];
    const path = join(directory, name);
    await writeFile(path, segmentBytes(name));
    await archive.takeCopy(TIMELINE, name, path);
    await rm(path);
    assert.deepEqual(await archive.ship(TIMELINE, NOW()), { files: 0, since: undefined });
    assert.deepEqual(await packs(), []);
  });

  test('sends the others when one is damaged here', async () => {
    const wanted = names(1, 3);
    await take(wanted);
    const path = join(directory, 'archive', TIMELINE, 'log', wanted[1]!.slice(0, 22), wanted[1]!);
    writeFileSync(path, 'damaged');
    assert.equal((await archive.ship(TIMELINE, NOW())).files, 1);
    await archive.free(TIMELINE, NOW());
    assert.deepEqual(await here(), [wanted[1]]);
    assert.ok((await archive.read(TIMELINE, wanted[2]!)).equals(segmentBytes(wanted[2]!)));
    await assert.rejects(archive.read(TIMELINE, wanted[1]!), isError('checksum', wanted[1]!));
  });

  test('loses a pack when nobody needs any of it', async () => {
    const wanted = names(1, 6);
    await take(wanted.slice(0, 3));
    await archive.ship(TIMELINE, NOW());
    await take(wanted.slice(3));
    await archive.ship(TIMELINE, NOW());
    await archive.free(TIMELINE, NOW());
    await archive.ensureRemoved(TIMELINE, wanted.slice(0, 2));
    await assertWhole(wanted.slice(2));
    await assertWhole(wanted.slice(2), open());
    await archive.ship(TIMELINE, NOW());
    assert.equal((await packs()).length, 2);
    await archive.ensureRemoved(TIMELINE, wanted.slice(0, 4));
    assert.deepEqual(await archive.restless(), [TIMELINE]);
    await archive.ship(TIMELINE, NOW());
    assert.deepEqual(await packs(), [`timelines/${TIMELINE}/log/${wanted[3]}-${wanted[5]}`]);
    await assertWhole(wanted.slice(4));
  });

  test('tells what is damaged or gone there', async () => {
    const wanted = names(1, 2);
    await take(wanted);
    await archive.ship(TIMELINE, NOW());
    await archive.free(TIMELINE, NOW());
    const [key] = (await packs()) as [string];
    const path = target().path(key);
    const bytes = readFileSync(path);
    bytes[Math.floor(bytes.length / 2)]! ^= 1;
    writeFileSync(path, bytes);
    await assert.rejects(archive.read(TIMELINE, wanted[0]!), isError('checksum', wanted[0]!));
    await target().objects.ensureRemoved([key]);
    await assert.rejects(archive.read(TIMELINE, wanted[0]!), isError('missing', wanted[0]!));
  });

  test('stays here, and is deleted here, while object storage is down', async () => {
    const { server } = target();
    // A directory is not down; it is another one in the tests of the engine.
    if (!server) return;
    const wanted = names(1, 4);
    await take(wanted.slice(0, 2));
    await archive.ship(TIMELINE, NOW());
    await archive.free(TIMELINE, NOW());
    await take(wanted.slice(2));
    server.proxy.set({ kind: 'down' });
    const unreachable = { name: 'ObjectError', kind: 'unreachable' };
    await assert.rejects(archive.ship(TIMELINE, NOW()), unreachable);
    assert.equal(await archive.free(TIMELINE, NOW()), 0);
    assert.equal((await archive.waiting(TIMELINE)).files, 2);
    const told = { name: 'CoppiceError', kind: 'object_storage_unreachable' };
    await assert.rejects(archive.read(TIMELINE, wanted[0]!), told);
    assert.ok((await archive.read(TIMELINE, wanted[2]!)).equals(segmentBytes(wanted[2]!)));
    server.proxy.set({ kind: 'none' });
    // As after a restart.
    archive = open();
    await archive.ship(TIMELINE, NOW());
    assert.equal((await packs()).length, 2);
    await assertWhole(wanted);
    server.proxy.set({ kind: 'down' });
    await archive.ensureDeleted(TIMELINE);
    assert.deepEqual(await archive.list(TIMELINE), []);
    await assert.rejects(archive.ship(TIMELINE, NOW()), unreachable);
    assert.deepEqual(await open().restless(), [TIMELINE]);
  });
});
