import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import type { ObjectErrorKind, ObjectInfo, ObjectStore } from '../../src/drivers/objects/contract.ts';
import { describeObjects, type ObjectTarget } from '../support/object-target.ts';

const MIB = 1024 ** 2;
const isError = (kind: ObjectErrorKind) => ({ name: 'ObjectError', kind });

async function* pieces(bytes: Buffer, size: number): AsyncIterable<Buffer> {
  for (let offset = 0; offset < bytes.length; offset += size) yield bytes.subarray(offset, offset + size);
}

async function gather<T>(source: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const one of source) all.push(one);
  return all;
}

async function keysOf(objects: ObjectStore, prefix: string): Promise<string[]> {
  return (await gather<ObjectInfo>(objects.list(prefix))).map(({ key }) => key);
}

/** A disk that forgets. */
function flipBit({ path }: ObjectTarget, key: string): void {
  const bytes = readFileSync(path(key));
  bytes[Math.floor(bytes.length / 2)]! ^= 1;
  writeFileSync(path(key), bytes);
}

describeObjects('object storage', (target) => {
  test('can be used, and nothing is left of trying it', async () => {
    const { objects } = target();
    await objects.check();
    assert.deepEqual(await keysOf(objects, ''), []);
  });

  test('gives back what was put, the last of its name', async () => {
    const { objects } = target();
    for (const bytes of [Buffer.alloc(0), Buffer.from('first'), randomBytes(3 * MIB)]) {
      await objects.put('a/b.c', bytes);
      assert.deepEqual(await objects.get('a/b.c'), bytes);
      assert.deepEqual(Buffer.concat(await gather(objects.getStream('a/b.c'))), bytes);
      const found = await objects.find('a/b.c');
      assert.equal(found?.bytes, bytes.length);
      assert.ok(Math.abs(found!.stored_at.getTime() - Date.now()) < 600_000);
    }
  });

  test('tells what is not there', async () => {
    const { objects } = target();
    await objects.put('there/longer', Buffer.from('x'));
    await assert.rejects(objects.get('there/long'), isError('missing'));
    await assert.rejects(gather(objects.getStream('nowhere')), isError('missing'));
    assert.equal(await objects.find('there/long'), undefined);
    assert.deepEqual(await keysOf(objects, 'nowhere/'), []);
  });

  test('takes no key that could mean another place', async () => {
    const { objects } = target();
    for (const key of ['', '/a', 'a/', 'a//b', '../a', 'a/../b', '.a', 'a b', 'ä', 'a'.repeat(600)]) {
      await assert.rejects(async () => objects.put(key, Buffer.alloc(1)), /is not the key/, key);
      await assert.rejects(async () => objects.get(key), /is not the key/, key);
      await assert.rejects(async () => objects.ensureRemoved([key]), /is not the key/, key);
    }
  });

  test('lists by key what begins so, however much that is, and removes it', async () => {
    const { objects, path } = target();
    const keys = Array.from({ length: 1100 }, (_, index) => `many/${String(index % 7)}/${index}`);
    for (const key of ['many/0/first', 'many-others', 'many/0.x']) await objects.put(key, Buffer.from(key));
    // They are put so only to be many.
    for (const key of keys) {
      mkdirSync(dirname(path(key)), { recursive: true });
      writeFileSync(path(key), key);
    }
    keys.push('many/0/first');
    assert.deepEqual(await keysOf(objects, 'many/'), [...keys, 'many/0.x'].sort());
    assert.deepEqual(await keysOf(objects, 'many/3'), keys.filter((key) => key.startsWith('many/3')).sort());
    for (const _ of ['once', 'and again']) await objects.ensureRemoved([...keys, 'many/never']);
    assert.deepEqual(await keysOf(objects, 'many'), ['many-others', 'many/0.x']);
    await objects.ensureRemoved(['many-others', 'many/0.x']);
  });

  test('holds what is larger than a request', async () => {
    const { objects } = target();
    const bytes = randomBytes(40 * MIB + 1);
    const { bytes: stored } = await objects.putStream('large', pieces(bytes, 700_001));
    assert.equal(stored, bytes.length);
    assert.equal((await objects.find('large'))?.bytes, bytes.length);
    assert.ok(Buffer.concat(await gather(objects.getStream('large'))).equals(bytes));
    for (const small of [Buffer.alloc(0), Buffer.from('small')]) {
      await objects.putStream('large', pieces(small, 2));
      assert.deepEqual(await objects.get('large'), small);
    }
    await objects.ensureRemoved(['large']);
  });

  test('keeps nothing of what ended in the middle', async () => {
    const { objects } = target();
    const failing = async function* (megabytes: number) {
      for (let count = 0; count < megabytes; count += 1) yield Buffer.alloc(MIB, 'y');
      throw new Error('the source is gone');
    };
    await objects.put('half', Buffer.from('from before'));
    for (const megabytes of [1, 40]) {
      await assert.rejects(objects.putStream('half', failing(megabytes)), /the source is gone/);
      await assert.rejects(objects.putStream('half-new', failing(megabytes)), /the source is gone/);
    }
    assert.equal((await objects.get('half')).toString(), 'from before');
    assert.deepEqual(await keysOf(objects, 'half'), ['half']);
    await objects.ensureRemoved(['half']);
  });

  test('holds one of those that were put at once, whole', async () => {
    const { objects } = target();
    const all = Array.from({ length: 12 }, (_, index) => Buffer.alloc(200_000, `${index} `));
    await Promise.all(all.map((bytes) => objects.put('same', bytes)));
    const held = await objects.get('same');
    assert.ok(all.some((bytes) => bytes.equals(held)));
    await objects.ensureRemoved(['same']);
  });

  test('shows nothing of what was being put when somebody was killed', async () => {
    const { objects, env, server } = target();
    const words = server ? [server.endpoint, server.bucket] : [env.COPPICE_OBJECTS!];
    const writer = spawn(process.execPath, [join(import.meta.dirname, '../support/write-objects.ts'), ...words], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(writer.stdout, 'data');
    const ended = once(writer, 'exit');
    writer.kill('SIGKILL');
    await ended;
    assert.deepEqual(await keysOf(objects, 'killed'), []);
    await assert.rejects(objects.get('killed'), isError('missing'));
    await objects.put('killed', Buffer.from('another'));
    assert.equal((await objects.get('killed')).toString(), 'another');
    await objects.ensureRemoved(['killed']);
  });

  test('stops when it is told to', async () => {
    const { objects } = target();
    const stop = new AbortController();
    const source = async function* () {
      for (let count = 0; count < 200; count += 1) {
        yield Buffer.alloc(MIB);
        stop.abort(new Error('enough'));
      }
    };
    await assert.rejects(objects.putStream('aborted', source(), { signal: stop.signal }), /enough/);
    assert.equal(await objects.find('aborted'), undefined);
  });

  test('finds out that the store has changed what it holds', async () => {
    const { objects, server } = target();
    // A directory trusts its disk; what is put there checks itself.
    if (!server) return;
    await objects.put('flipped', randomBytes(MIB));
    flipBit(target(), 'flipped');
    await assert.rejects(objects.get('flipped'), isError('damaged'));
    await objects.putStream('flipped', pieces(randomBytes(40 * MIB), MIB));
    flipBit(target(), 'flipped');
    await assert.rejects(objects.get('flipped'), isError('damaged'));
    await objects.ensureRemoved(['flipped']);
  });
});
