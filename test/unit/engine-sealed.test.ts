import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { ObjectStore } from '../../src/drivers/objects/contract.ts';
import { createDirectoryObjects } from '../../src/drivers/objects/directory/driver.ts';
import { getSealed, putSealed } from '../../src/engine/objects/sealed.ts';

describe('a sealed object', () => {
  let root: string;
  let objects: ObjectStore;
  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'sealed-'));
    objects = createDirectoryObjects({ root });
  });
  after(() => rm(root, { recursive: true, force: true }));

  it('is unpacked no further than what it may be', async () => {
    const bytes = Buffer.alloc(4 * 1024 ** 2);
    const stored = await putSealed(objects, 'small', bytes);
    assert.ok(stored < bytes.length / 1000, 'little says that it is much');
    assert.ok((await getSealed(objects, 'small', undefined, bytes.length)).equals(bytes));
    await assert.rejects(getSealed(objects, 'small', undefined, bytes.length - 1), {
      kind: 'damaged',
      message: /small in .* is not what was stored there/,
    });
  });

  it('is told from what was damaged since', async () => {
    await putSealed(objects, 'whole', Buffer.from('what was stored'));
    const sealed = await objects.get('whole');
    sealed[sealed.length - 1]! ^= 1;
    await objects.put('damaged', sealed);
    await assert.rejects(getSealed(objects, 'damaged'), { kind: 'damaged', key: 'damaged' });
  });
});
