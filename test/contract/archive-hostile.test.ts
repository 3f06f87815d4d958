import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  type ArchiveTarget,
  accept,
  describeArchive,
  segmentBytes,
  segmentName,
  TIMELINE,
} from '../support/archive-target.ts';
import { system } from '../support/filesystem.ts';
import { OTHER_OWNER, OWNER } from '../support/storage-target.ts';
import { until } from '../support/until.ts';

/** A file of the host and one of another customer, on the same file system; both must stay what they are. */
function plantSecrets({ filesystem }: ArchiveTarget): { paths: string[]; intact: () => void } {
  const directory = join(filesystem.path, 'secrets');
  mkdirSync(directory, { recursive: true });
  const owners = { host: { uid: 0, gid: 0 }, neighbour: OTHER_OWNER };
  const paths = Object.entries(owners).map(([name, { uid, gid }]) => {
    const path = join(directory, name);
    if (!existsSync(path)) writeFileSync(path, `secret of ${name}`, { mode: 0o600 });
    chownSync(path, uid, gid);
    return path;
  });
  const intact = () => {
    for (const [index, [name, owner]] of Object.entries(owners).entries()) {
      const { uid, gid, mode } = statSync(paths[index]!);
      assert.deepEqual([uid, gid, mode & 0o777], [owner.uid, owner.gid, 0o600], name);
      assert.equal(readFileSync(paths[index]!, 'utf8'), `secret of ${name}`);
    }
  };
  return { paths, intact };
}

describeArchive('an archive with a hostile writer', (target) => {
  test('takes in nothing but plain files of the writer, and is held up by none', async () => {
    const { archive, driver, filesystem, incoming, root, write } = target();
    const { paths: [host, neighbour] = [], intact } = plantSecrets(target());
    const server = createServer();
    const plants: ((path: string) => unknown)[] = [
      (path) => symlinkSync(host!, path),
      (path) => symlinkSync('nowhere', path),
      (path) => symlinkSync(join(root, TIMELINE, 'log'), path),
      (path) => linkSync(host!, path),
      (path) => linkSync(neighbour!, path),
      (path) => system('mkfifo', path),
      (path) => system('mknod', path, 'c', '1', '5'),
      async (path) => {
        // The path of a socket has little room.
        const short = join(filesystem.path, 'socket');
        await new Promise<void>((resolve) => server.listen(short, resolve));
        renameSync(short, path);
      },
      (path) => mkdirSync(join(path, 'deep/deeper'), { recursive: true }),
      (path) => {
        writeFileSync(path, '');
        truncateSync(path, 2 ** 40);
        chownSync(path, OWNER.uid, OWNER.gid);
      },
    ];
    const honest = segmentName(0xff);
    for (const [index, plant] of plants.entries()) await plant(join(incoming, segmentName(index + 1)));
    for (const name of ['000000010000000000000003.partial', `${honest}.00000028.backup`, 'notes', '..archive']) {
      writeFileSync(join(incoming, name), name);
    }
    mkdirSync(join(incoming, 'directory/within'), { recursive: true });
    symlinkSync(host!, join(incoming, 'directory/within/link'));
    symlinkSync(host!, join(incoming, 'link'));
    write(honest);
    await archive(honest);
    const { taken, refused } = await driver.takeIn(TIMELINE, accept);
    server.close();
    assert.deepEqual(
      taken.map(({ name }) => name),
      [honest],
    );
    assert.deepEqual(
      refused.map(({ name }) => name),
      plants.map((_, index) => segmentName(index + 1)),
    );
    assert.deepEqual(readdirSync(incoming), []);
    assert.deepEqual(
      (await driver.list(TIMELINE)).map(({ name }) => name),
      [honest],
    );
    intact();
  });

  test('who exchanges files while they are taken in gains nothing', async () => {
    const { driver, group, incoming } = target();
    const { paths, intact } = plantSecrets(target());
    const name = segmentName(7);
    const script = `echo ready; while :; do
      echo bytes > .a; mv -f .a ${name}; ln -sf '${paths[0]}' .b; mv -f .b ${name}; ln -f '${paths[1]}' .c; mv -f .c ${name}
      mkdir .d && rm -f ${name} && mv .d ${name}; rm -rf ${name}; mkfifo .e && mv -f .e ${name}; done 2>/dev/null`;
    const child = spawn('/bin/sh', ['-c', script], {
      ...OWNER,
      cwd: incoming,
      stdio: ['ignore', 'pipe', 'ignore'],
      detached: true,
    });
    await new Promise((resolve) => child.stdout.once('data', resolve));
    try {
      let [rounds, taken] = [0, 0];
      const round = async () => {
        taken += (await driver.takeIn(TIMELINE, accept)).taken.length;
        intact();
        return ++rounds >= 200 && taken > 0;
      };
      await until(round, { what: 'a file to be taken between exchanges', interval_ms: 1 });
    } finally {
      const ended = new Promise((resolve) => child.once('close', resolve));
      process.kill(-child.pid!, 'SIGKILL');
      await ended;
    }
    await driver.takeIn(TIMELINE, accept);
    assert.equal((await driver.read(TIMELINE, name)).toString(), 'bytes\n');
    const { uid } = statSync(join(group(name), name));
    assert.equal(uid, 0);
    intact();
  });

  test('who still holds a file open can spoil it, which is seen', async () => {
    const { driver, incoming } = target();
    const name = segmentName(8);
    const path = join(incoming, name);
    const spoil = `exec 3>>${name}; echo ready; read line; echo more >&3; echo done`;
    const child = spawn('/bin/sh', ['-c', spoil], { ...OWNER, cwd: incoming, stdio: ['pipe', 'pipe', 'inherit'] });
    await new Promise((resolve) => child.stdout.once('data', resolve));
    writeFileSync(path, segmentBytes(name));
    await driver.takeIn(TIMELINE, accept);
    assert.deepEqual(await driver.read(TIMELINE, name), segmentBytes(name));
    child.stdin.end('\n');
    await new Promise((resolve) => child.once('close', resolve));
    await assert.rejects(driver.read(TIMELINE, name), { kind: 'checksum' });
  });

  test('who fills the directory holds up nobody and is seen to bit by bit', async () => {
    const { archive, driver, incoming, refused, write } = target();
    for (let index = 0; index < 1500; index++) writeFileSync(join(incoming, `junk ${index}`), '');
    const strange = Array.from({ length: 100 }, (_, index) => segmentName(0x1000 + index));
    for (const name of strange) {
      writeFileSync(join(incoming, name), 'no log');
      chownSync(join(incoming, name), OWNER.uid, OWNER.gid);
    }
    const honest = segmentName(9);
    write(honest);
    await archive(honest);
    const check = (_: string, bytes: Buffer) => (bytes.toString() === 'no log' ? 'it is no log' : undefined);
    const taken: string[] = [];
    for (let round = 0; round < 3; round++) {
      taken.push(...(await driver.takeIn(TIMELINE, check)).taken.map(({ name }) => name));
    }
    assert.deepEqual(taken, [honest]);
    assert.deepEqual(readdirSync(incoming), []);
    assert.ok(readdirSync(refused).length < 100);
  });

  test('reaches nothing but its own incoming directory', async () => {
    const { incoming, root } = target();
    const script = `ls '${root}' || ls '${join(root, TIMELINE)}' || ls '${join(root, TIMELINE, 'log')}' ||
      ls '${join(root, TIMELINE, 'refused')}' || touch '${join(root, TIMELINE, 'x')}' || mv '${incoming}' '${incoming}2'`;
    const child = spawn('/bin/sh', ['-c', script], { ...OWNER, cwd: '/', stdio: 'ignore' });
    const code = await new Promise((resolve) => child.once('close', resolve));
    assert.notEqual(code, 0);
    chmodSync(root, 0o711);
  });

  test('leaves nothing behind, whatever it has put there', async () => {
    const { driver, incoming, root } = target();
    const { paths, intact } = plantSecrets(target());
    mkdirSync(join(incoming, segmentName(1), 'deep'), { recursive: true });
    symlinkSync(paths[0]!, join(incoming, segmentName(1), 'deep/link'));
    symlinkSync(join(paths[0]!, '..'), join(incoming, 'secrets'));
    await driver.ensureDeleted(TIMELINE);
    assert.deepEqual(readdirSync(root), []);
    intact();
  });
});
