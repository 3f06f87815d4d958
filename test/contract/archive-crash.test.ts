import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { appendFileSync, chmodSync, chownSync, linkSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { syncFilesystem } from '../../src/drivers/storage/durable.ts';
import {
  type ArchiveTarget,
  accept,
  describeArchive,
  segmentBytes,
  segmentName,
  TIMELINE,
} from '../support/archive-target.ts';
import { OWNER } from '../support/storage-target.ts';

const PROGRAM = fileURLToPath(new URL('../support/take-in.ts', import.meta.url));
const names = (first: number, count: number) => Array.from({ length: count }, (_, index) => segmentName(first + index));

async function assertTaken({ driver, incoming }: ArchiveTarget, wanted: readonly string[]): Promise<void> {
  assert.deepEqual((await driver.takeIn(TIMELINE, accept)).refused, []);
  assert.deepEqual(readdirSync(incoming), []);
  assert.deepEqual(
    (await driver.list(TIMELINE)).map(({ name }) => name),
    wanted,
  );
  for (const name of wanted) assert.deepEqual(await driver.read(TIMELINE, name), segmentBytes(name));
}

/** Runs the program until it has looked at so many segments, then kills it. */
async function takeInUntil({ root }: ArchiveTarget, looks: number): Promise<void> {
  const child = spawn(process.execPath, [PROGRAM, root, TIMELINE], { stdio: ['ignore', 'pipe', 'inherit'] });
  let seen = 0;
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    seen += text.split('\n').length - 1;
    if (seen >= looks) child.kill('SIGKILL');
  });
  await new Promise((resolve) => child.once('close', resolve));
}

describeArchive('taking in that is killed', (target) => {
  test('at any moment loses nothing', async () => {
    const { archive, write } = target();
    const wanted: string[] = [];
    for (const [round, looks] of [1, 2, 5, 11, 12].entries()) {
      const more = names(1 + round * 12, 12);
      wanted.push(...more);
      for (const name of more) {
        write(name);
        await archive(name);
      }
      await takeInUntil(target(), looks);
      // The program may have been killed before it began.
      await takeInUntil(target(), looks);
      await assertTaken(target(), wanted);
    }
  });

  test('between any two of its steps goes on from there', async () => {
    const { archive, driver, group, incoming, write } = target();
    await driver.ensureDeleted(TIMELINE);
    await driver.ensureReady(TIMELINE, OWNER);
    const wanted = names(1, 4);
    const [linked, placed, owned, noted] = wanted as [string, string, string, string];
    for (const name of wanted) {
      write(name);
      await archive(name);
    }
    mkdirSync(group(linked), { recursive: true });
    const place = (name: string, to = name) => linkSync(join(incoming, name), join(group(name), to));
    place(linked, `${linked}.new`);
    for (const name of [placed, owned, noted]) place(name);
    for (const name of [owned, noted]) {
      chownSync(join(incoming, name), 0, OWNER.gid);
      chmodSync(join(incoming, name), 0o440);
    }
    // Another took it in and noted it, and did not come to remove it; then half a line of the next one.
    const sum = createHash('sha256').update(segmentBytes(noted)).digest('hex');
    const line = `${noted} ${1024 ** 2} ${sum} ${new Date().toISOString()} whole\n`;
    appendFileSync(join(group(noted), 'sums'), `${line}${line.slice(0, 60)}`);
    await assertTaken(target(), wanted);
  });

  test('leaves a list on which half a line means nothing', async () => {
    const { archive, driver, group, write } = target();
    await driver.ensureDeleted(TIMELINE);
    await driver.ensureReady(TIMELINE, OWNER);
    const [first, second] = names(1, 2) as [string, string];
    write(first);
    await archive(first);
    await driver.takeIn(TIMELINE, accept);
    const line = `${second} ${1024 ** 2} ${'0'.repeat(64)} 2026-01-02T03:04:05.678Z whole`;
    for (let length = 1; length < line.length; length += 7) {
      appendFileSync(join(group(first), 'sums'), `\n${line.slice(0, length)}`);
      assert.deepEqual(
        (await driver.list(TIMELINE)).map(({ name }) => name),
        [first],
      );
    }
    write(second);
    await archive(second);
    await assertTaken(target(), [first, second]);
    await driver.ensureRemoved(TIMELINE, [first]);
    await assertTaken(target(), [second]);
  });

  test('between noting a copy and giving it its name leaves the one that was there', async () => {
    const { data_directory, driver, group } = target();
    await driver.ensureDeleted(TIMELINE);
    await driver.ensureReady(TIMELINE, OWNER);
    const [name, other] = names(1, 2) as [string, string];
    const path = join(data_directory, 'copied');
    writeFileSync(path, segmentBytes(name));
    await driver.takeCopy(TIMELINE, name, path);
    await driver.takeCopy(TIMELINE, other, path);
    appendFileSync(
      join(group(name), 'sums'),
      `${name} ${1024 ** 2} ${'1'.repeat(64)} ${new Date().toISOString()} copy\n`,
    );
    assert.deepEqual(await driver.read(TIMELINE, name), segmentBytes(name));
    await driver.ensureRemoved(TIMELINE, [other]);
    assert.deepEqual(await driver.read(TIMELINE, name), segmentBytes(name));
    writeFileSync(path, segmentBytes(other));
    await driver.takeCopy(TIMELINE, name, path);
    assert.deepEqual(await driver.read(TIMELINE, name), segmentBytes(other));
  });
});

describeArchive('an archive whose machine loses power', (target) => {
  test('holds what it said that it had taken in', async () => {
    const { archive, driver, filesystem, write } = target();
    const wanted = names(0xfe, 4);
    for (const name of wanted) {
      write(name);
      await archive(name);
    }
    // As Postgres does before it archives a segment.
    await syncFilesystem(filesystem.path);
    await driver.takeIn(TIMELINE, accept);
    const image = await filesystem.copyImage();
    await filesystem.replaceBy(image);
    assert.deepEqual(
      (await driver.list(TIMELINE)).map(({ name }) => name),
      wanted,
    );
    await assertTaken(target(), wanted);
  });
});
