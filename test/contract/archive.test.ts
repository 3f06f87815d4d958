import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ArchiveError } from '../../src/drivers/archive/contract.ts';
import { createDirectoryArchive } from '../../src/drivers/archive/directory/driver.ts';
import {
  type ArchiveTarget,
  accept,
  describeArchive,
  segmentBytes,
  segmentName,
  TIMELINE,
} from '../support/archive-target.ts';
import { OTHER_OWNER, OWNER } from '../support/storage-target.ts';

const MIB = 1024 ** 2;
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');
const names = (first: number, count: number) => Array.from({ length: count }, (_, index) => segmentName(first + index));
const isError = (kind: ArchiveError['kind'], file: string) => (error: unknown) => {
  assert.ok(error instanceof ArchiveError, String(error));
  assert.deepEqual([error.kind, error.file], [kind, file]);
  return true;
};

/** Whether the server could open a file for writing. */
const mayWrite = (path: string) =>
  spawnSync('test', ['-w', path], { uid: OWNER.uid, gid: OWNER.gid, env: { PATH: process.env.PATH } }).status === 0;

async function archiveAll({ write, archive }: ArchiveTarget, wanted: readonly string[]): Promise<void> {
  for (const name of wanted) {
    write(name);
    await archive(name);
  }
}

/** Everything on the list is there, whole. */
async function assertWhole({ driver }: ArchiveTarget, wanted: readonly string[]): Promise<void> {
  const listed = await driver.list(TIMELINE);
  assert.deepEqual(
    listed.map(({ name, bytes, sha256 }) => ({ name, bytes, sha256 })),
    wanted.map((name) => ({ name, bytes: MIB, sha256: sha256(segmentBytes(name)) })),
  );
  for (const name of wanted) assert.deepEqual(await driver.read(TIMELINE, name), segmentBytes(name));
}

async function clear({ driver, data_directory }: ArchiveTarget): Promise<void> {
  await driver.ensureDeleted(TIMELINE);
  for (const name of readdirSync(join(data_directory, 'pg_wal'))) rmSync(join(data_directory, 'pg_wal', name));
  await driver.ensureReady(TIMELINE, OWNER);
}

describeArchive(
  'an archive',
  (target) => {
    test('takes in what the server has archived, and owns it then', async () => {
      const { data_directory, driver, group, incoming, kind } = target();
      const wanted = names(0xfe, 4);
      await archiveAll(target(), wanted);
      const { taken, refused } = await driver.takeIn(TIMELINE, accept);
      assert.deepEqual(refused, []);
      assert.deepEqual(taken.map(({ name }) => name).sort(), wanted);
      assert.deepEqual(readdirSync(incoming), []);
      await assertWhole(target(), wanted);
      for (const name of wanted) {
        const { uid, gid, mode, ino } = statSync(join(group(name), name));
        const linked = ino === statSync(join(data_directory, 'pg_wal', name)).ino;
        assert.equal(linked, kind !== 'btrfs', 'a link where one can be made, else a copy');
        assert.deepEqual([uid, gid, mode & 0o777], [0, OWNER.gid, linked ? 0o660 : 0o440]);
        assert.equal(mayWrite(join(data_directory, 'pg_wal', name)), true, 'as a checkpoint may');
      }
      assert.deepEqual((await driver.takeIn(TIMELINE, accept)).taken, []);
    });

    test('is the only one that can change what it holds when the server has ended', async () => {
      await clear(target());
      const { data_directory, driver, group } = target();
      const wanted = names(0xfe, 4);
      await archiveAll(target(), wanted);
      await driver.takeIn(TIMELINE, accept);
      for (const _ of ['once', 'and again']) await driver.seal(TIMELINE, [...wanted, segmentName(0x300)]);
      for (const name of wanted) {
        assert.equal(statSync(join(group(name), name)).mode & 0o777, 0o440);
        const path = join(data_directory, 'pg_wal', name);
        const shared = statSync(path).ino === statSync(join(group(name), name)).ino;
        assert.equal(mayWrite(path), !shared, 'a copy is its own');
      }
      await assertWhole(target(), wanted);
    });

    test('is told of the same segment again after a crash, before and after it was taken in', async () => {
      await clear(target());
      const { archive, driver, write } = target();
      const name = segmentName(1);
      await archiveAll(target(), [name]);
      await archive(name);
      await driver.takeIn(TIMELINE, accept);
      await archive(name);
      await driver.takeIn(TIMELINE, accept);
      // Restored from a copy, it is another file with the same bytes.
      rmSync(join(target().data_directory, 'pg_wal', name));
      write(name);
      await archive(name);
      const { refused } = await driver.takeIn(TIMELINE, accept);
      assert.deepEqual(refused, []);
      await assertWhole(target(), [name]);
    });

    test('is listed by another process while what it holds goes', async () => {
      await clear(target());
      const { driver, root, data_directory, write } = target();
      const name = segmentName(1);
      write(name);
      const path = join(data_directory, 'pg_wal', name);
      const other = createDirectoryArchive({ root });
      let going = true;
      const list = async () => {
        while (going) assert.ok((await other.list(TIMELINE)).length <= 1);
      };
      const comeAndGo = async () => {
        for (let round = 0; round < 8; round++) {
          await driver.takeCopy(TIMELINE, name, path);
          await driver.ensureRemoved(TIMELINE, [name]);
        }
      };
      await Promise.all([list(), comeAndGo().finally(() => (going = false))]);
    });

    test('gives copies that can be changed and belong to whom the directory belongs to', async () => {
      await clear(target());
      const { driver, filesystem } = target();
      const name = segmentName(1);
      await archiveAll(target(), [name]);
      await driver.takeIn(TIMELINE, accept);
      const directory = join(filesystem.path, 'given');
      mkdirSync(directory);
      chownSync(directory, OTHER_OWNER.uid, OTHER_OWNER.gid);
      await driver.copyTo(TIMELINE, name, directory);
      const { uid, gid, mode } = statSync(join(directory, name));
      assert.deepEqual([uid, gid, mode & 0o777], [OTHER_OWNER.uid, OTHER_OWNER.gid, 0o600]);
      assert.deepEqual(readFileSync(join(directory, name)), segmentBytes(name));
      writeFileSync(join(directory, name), 'changed');
      await assertWhole(target(), [name]);
      await assert.rejects(driver.copyTo(TIMELINE, name, directory), { code: 'EEXIST' });
      await assert.rejects(driver.copyTo(TIMELINE, segmentName(2), directory), isError('missing', segmentName(2)));
      rmSync(directory, { recursive: true });
    });

    test("replaces a copy of a server's last segment by that segment once it is finished, and not the reverse", async () => {
      await clear(target());
      const { archive, data_directory, driver, write } = target();
      const name = segmentName(1);
      const path = join(data_directory, 'pg_wal', name);
      write(name);
      const whole = readFileSync(path);
      writeFileSync(path, Buffer.concat([whole.subarray(0, 4096), Buffer.alloc(MIB - 4096)]));
      await driver.takeCopy(TIMELINE, name, path);
      const half = readFileSync(path);
      assert.deepEqual(await driver.read(TIMELINE, name), half);
      await driver.takeCopy(TIMELINE, name, path);
      writeFileSync(path, whole);
      await archive(name);
      assert.deepEqual((await driver.takeIn(TIMELINE, accept)).refused, []);
      await assertWhole(target(), [name]);
      const other = join(data_directory, 'other');
      writeFileSync(other, half);
      await driver.takeCopy(TIMELINE, name, other);
      rmSync(other);
      await assertWhole(target(), [name]);
    });

    test('is whole to another process while copies are being replaced', async () => {
      await clear(target());
      const { data_directory, driver, root } = target();
      const [first, second] = names(1, 2) as [string, string];
      const half = join(data_directory, 'half');
      writeFileSync(half, Buffer.concat([segmentBytes(first).subarray(0, 4096), Buffer.alloc(MIB - 4096)]));
      await driver.takeCopy(TIMELINE, first, half);
      rmSync(half);
      await archiveAll(target(), [first, second]);
      const other = createDirectoryArchive({ root });
      const look = async (name: string) => {
        if (name === second) assert.deepEqual(await other.read(TIMELINE, first), segmentBytes(first));
        return undefined;
      };
      assert.deepEqual((await driver.takeIn(TIMELINE, look)).refused, []);
      await assertWhole(target(), [first, second]);
    });

    test('sets aside what does not pass, with the reason, and takes the others', async () => {
      await clear(target());
      const { archive, data_directory, driver, refused: directory } = target();
      const [first, second, third] = names(1, 3) as [string, string, string];
      await archiveAll(target(), [first, second, third]);
      const check = (name: string) => (name === second ? 'it is of another cluster' : undefined);
      const { taken, refused } = await driver.takeIn(TIMELINE, check);
      assert.deepEqual(
        taken.map(({ name }) => name),
        [first, third],
      );
      assert.deepEqual(refused, [{ name: second, reason: 'it is of another cluster' }]);
      // Other bytes under a name that is taken.
      rmSync(join(data_directory, 'pg_wal', first));
      writeFileSync(join(data_directory, 'pg_wal', first), 'other bytes');
      chownSync(join(data_directory, 'pg_wal', first), OWNER.uid, OWNER.gid);
      await archive(first);
      const again = await driver.takeIn(TIMELINE, accept);
      assert.deepEqual(again.refused, [{ name: first, reason: 'another file of that name is in the archive' }]);
      assert.deepEqual(readFileSync(join(directory, second)), segmentBytes(second));
      assert.equal(readFileSync(join(directory, `${second}.reason`), 'utf8'), 'it is of another cluster\n');
      await assertWhole(target(), [first, third]);
    });

    test('refuses nothing because whoever checks cannot tell', async () => {
      await clear(target());
      const { driver, incoming } = target();
      const [name] = names(1, 1) as [string];
      await archiveAll(target(), [name]);
      const error = Object.assign(new Error('the store is not there'), { code: 'ECONNREFUSED' });
      const cannot = () => Promise.reject(error);
      await assert.rejects(driver.takeIn(TIMELINE, cannot), error);
      assert.deepEqual(readdirSync(incoming), [name]);
      await driver.takeIn(TIMELINE, accept);
      await assertWhole(target(), [name]);
    });

    test('tells what is damaged or gone, and gives no such file to anybody', async () => {
      await clear(target());
      const { driver, filesystem, group } = target();
      const [flipped, grown, gone, good] = names(1, 4) as [string, string, string, string];
      await archiveAll(target(), [flipped, grown, gone, good]);
      await driver.takeIn(TIMELINE, accept);
      const path = join(group(flipped), flipped);
      const bytes = readFileSync(path);
      bytes[4711]! ^= 1;
      chmodSync(path, 0o600);
      writeFileSync(path, bytes);
      appendFileSync(join(group(grown), grown), 'more');
      rmSync(join(group(gone), gone));
      const directory = join(filesystem.path, 'given');
      mkdirSync(directory);
      for (const [name, kind] of [
        [flipped, 'checksum'],
        [grown, 'checksum'],
        [gone, 'missing'],
      ] as const) {
        await assert.rejects(driver.read(TIMELINE, name), isError(kind, name));
        await assert.rejects(driver.copyTo(TIMELINE, name, directory), isError(kind, name));
      }
      assert.deepEqual(readdirSync(directory), []);
      assert.deepEqual(await driver.read(TIMELINE, good), segmentBytes(good));
      rmSync(directory, { recursive: true });
    });

    test('is mended by the bytes that were taken in, and by no others', async () => {
      const { data_directory, driver, group } = target();
      await clear(target());
      const [deleted, flipped, other, linked] = names(0x10, 4) as [string, string, string, string];
      await archiveAll(target(), [deleted, flipped, other, linked]);
      await driver.takeIn(TIMELINE, accept);
      const original = (name: string) => join(data_directory, 'pg_wal', name);
      const archived = (name: string) => join(group(name), name);
      for (const name of [deleted, flipped, other, linked]) {
        // The server's file may be the archive's by another name: what harms one harms both.
        const bytes = readFileSync(original(name));
        rmSync(original(name));
        writeFileSync(original(name), bytes);
        if (name === flipped) {
          chmodSync(archived(name), 0o640);
          bytes[77]! ^= 1;
          writeFileSync(archived(name), bytes);
        } else rmSync(archived(name));
      }
      assert.deepEqual(await driver.lost(TIMELINE), [deleted, other, linked]);
      appendFileSync(original(other), 'x');
      rmSync(original(linked));
      symlinkSync(original(deleted), original(linked));
      const mended = async (name: string) => driver.mend(TIMELINE, name, original(name));
      assert.deepEqual(
        [await mended(deleted), await mended(flipped), await mended(other), await mended(linked)],
        [true, true, false, false],
      );
      await assertWhole(target(), [deleted, flipped]);
      assert.deepEqual(await driver.lost(TIMELINE), [other, linked]);
      assert.deepEqual([...readdirSync(group(deleted))].sort(), [deleted, flipped, 'sums']);
      const { uid, gid, mode } = statSync(archived(deleted));
      assert.deepEqual([uid, gid, mode & 0o777], [0, OWNER.gid, 0o440]);
      // What is right stays as it is, and of what was never taken in nothing is known.
      const { ino } = statSync(archived(flipped));
      assert.equal(await mended(flipped), true);
      assert.equal(statSync(archived(flipped)).ino, ino);
      assert.equal(await driver.mend(TIMELINE, segmentName(0x20), original(deleted)), false);
      rmSync(archived(deleted));
      await assert.rejects(driver.mend(TIMELINE, deleted, original(segmentName(0x21))), { code: 'ENOENT' });
    });

    test('removes files, then the directory that held them, and deletes everything of a timeline', async () => {
      await clear(target());
      const { driver, group, root } = target();
      const wanted = names(0xfd, 6);
      await archiveAll(target(), wanted);
      await driver.takeIn(TIMELINE, accept);
      for (const _ of ['once', 'and again']) await driver.ensureRemoved(TIMELINE, wanted.slice(0, 4));
      await assertWhole(target(), wanted.slice(4));
      assert.ok(!existsSync(group(wanted[0]!)));
      assert.deepEqual(await driver.timelines(), [TIMELINE]);
      for (const _ of ['once', 'and again']) await driver.ensureDeleted(TIMELINE);
      assert.deepEqual(readdirSync(root), []);
      assert.deepEqual(await driver.timelines(), []);
      assert.deepEqual(await driver.list(TIMELINE), []);
      assert.deepEqual(await driver.takeIn(TIMELINE, accept), { taken: [], refused: [] });
      await assert.rejects(driver.ensureDeleted('../volume'), /not a timeline/);
    });
  },
  ['xfs', 'btrfs', 'ext4', 'ext4 before anything is sent'],
);

describeArchive('an archive whose disk is full', (target) => {
  test('loses nothing, and goes on when there is room', async () => {
    await clear(target());
    const { archive, driver, filesystem, incoming, write } = target();
    const [early, late] = [names(1, 3), names(4, 3)] as const;
    await archiveAll(target(), early);
    for (const name of late) write(name);
    const filler = join(filesystem.path, 'filler');
    const fill = () => {
      for (const bytes of [4 * MIB, 4096]) {
        try {
          for (;;) appendFileSync(filler, Buffer.alloc(bytes, 'x'), { flush: true });
        } catch (error) {
          assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC');
        }
      }
    };
    fill();
    assert.ok(statfsSync(filesystem.path).bavail < 256);
    // Some need no room, some fail; none does half of it.
    for (const name of late) await archive(name).catch(() => undefined);
    await driver.takeIn(TIMELINE, accept).catch((error) => assert.equal(error.code, 'ENOSPC'));
    for (const { name } of await driver.list(TIMELINE)) {
      assert.deepEqual(await driver.read(TIMELINE, name), segmentBytes(name));
    }
    rmSync(filler);
    for (const name of late) await archive(name);
    assert.deepEqual((await driver.takeIn(TIMELINE, accept)).refused, []);
    await assertWhole(target(), [...early, ...late]);
    assert.deepEqual(readdirSync(incoming), []);
  });
});
