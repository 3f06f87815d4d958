import assert from 'node:assert/strict';
import { mkdtemp, readdir, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { ObjectStore } from '../../src/drivers/objects/contract.ts';
import { createDirectoryObjects } from '../../src/drivers/objects/directory/driver.ts';
import { withPlaceLease } from '../../src/engine/backup/place-lease.ts';
import { until } from '../support/until.ts';

const TIMES = { renew_interval_ms: 20, held_ms: 60_000, age_max_ms: 600_000 };
const bytes = Buffer.from('bytes');

describe('the lease on a place of backups', () => {
  let root: string;
  let objects: ObjectStore;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'place-'));
    objects = createDirectoryObjects({ root });
  });
  afterEach(() => rm(root, { recursive: true, force: true }));

  /** Nothing can be written below `leases/`, and everything elsewhere. */
  const block = async () => {
    await rename(join(root, 'leases'), join(root, 'leases-away'));
    await writeFile(join(root, 'leases'), '');
  };
  const unblock = async () => {
    await rm(join(root, 'leases'));
    await rename(join(root, 'leases-away'), join(root, 'leases'));
  };
  const isLost = async (held: ObjectStore) => {
    try {
      await held.put('something', bytes);
      return false;
    } catch {
      return true;
    }
  };

  it('is renewed as long as the work goes on, and goes with it', async () => {
    const renewed_at = async () => (await objects.find('leases/mine'))!.stored_at.getTime();
    const result = await withPlaceLease(
      objects,
      'mine',
      async (held) => {
        const first = await renewed_at();
        await until(async () => (await renewed_at()) > first, { what: 'the lease to be renewed' });
        await held.put('something', bytes);
        return (await held.get('something')).toString();
      },
      TIMES,
    );
    assert.equal(result, 'bytes');
    assert.deepEqual(await readdir(root), ['something']);
  });

  it('that cannot be renewed for too long ends the work, and for good', async () => {
    const work = withPlaceLease(
      objects,
      'mine',
      async (held) => {
        await block();
        await until(() => isLost(held), { what: 'the lease to be lost' });
        await unblock();
        await held.put('after', bytes);
      },
      { ...TIMES, held_ms: 100 },
    );
    await assert.rejects(work, { name: 'BackupError', message: /another Coppice may write there by now/ });
    assert.equal(await objects.find('after'), undefined);
  });

  it('is refused while somebody else has it, until that is old', async () => {
    const other = join(root, 'leases/other');
    await objects.put('leases/other', bytes);
    const work = () => withPlaceLease(objects, 'mine', async () => 'done', TIMES);
    await assert.rejects(work(), { name: 'BackupError', message: /another Coppice writes to/ });
    const long_ago = new Date(Date.now() - 2 * TIMES.age_max_ms);
    await utimes(other, long_ago, long_ago);
    assert.equal(await work(), 'done');
  });
});
