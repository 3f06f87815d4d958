import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { VolumeOwner, VolumeRef } from '../../src/drivers/storage/contract.ts';
import type { OpenSession } from '../../src/postgres/session.ts';
import { system } from '../support/filesystem.ts';
import { type Cluster, type Nursery, openNursery, until, withServer } from '../support/postgres.ts';
import { describeStorage, OTHER_OWNER, OWNER } from '../support/storage-target.ts';

describeStorage(
  'a Postgres 17',
  (target) => {
    let nursery: Nursery;
    let cluster: Cluster;
    before(async () => {
      nursery = await openNursery();
      cluster = await nursery.plant(17);
    });
    after(() => nursery[Symbol.asyncDispose]());

    const plant = (id: string) =>
      target().driver.ensureCreated(
        id,
        async (path) => {
          await system('cp', '-a', `${cluster.path}/.`, path);
        },
        OWNER,
      );

    const withVolume = <T>(volume: VolumeRef, owner: VolumeOwner, use: (open: OpenSession) => Promise<T>) =>
      withServer({ ...cluster, path: target().driver.path(volume), owner }, {}, use);

    test('runs on a volume and on its clone, each under its own user and on its own rows', async () => {
      const { driver } = target();
      const source = await plant('parent');
      const sum = 'SELECT count(*)::int AS count, sum(number)::int AS sum FROM public.numbers';
      await withVolume(source, OWNER, async (open) => {
        await using session = await open('postgres');
        await session.query('CREATE TABLE public.numbers AS SELECT generate_series(1, 10000) AS number');
      });
      const clone = await driver.ensureCloned(source, 'child', { owner: OTHER_OWNER });
      await withVolume(clone, OTHER_OWNER, async (open) => {
        await using session = await open('postgres');
        assert.deepEqual((await session.query(sum)).rows, [{ count: 10_000, sum: 50_005_000 }]);
        await session.query('DELETE FROM public.numbers WHERE number > 10');
        await withVolume(source, OWNER, async (openSource) => {
          await using other = await openSource('postgres');
          assert.deepEqual((await other.query(sum)).rows, [{ count: 10_000, sum: 50_005_000 }]);
        });
        assert.deepEqual((await session.query(sum)).rows, [{ count: 10, sum: 55 }]);
      });
      assert.ok((await driver.measure(clone)).logical_bytes > 20 * 1024 * 1024);
      for (const id of ['parent', 'child']) await driver.ensureDeleted(id);
    });

    test('that commits while it is cloned is there with every commit so far, where clones are of one moment', async () => {
      const { driver, kind } = target();
      assert.equal(driver.capabilities.atomic_clone, kind === 'btrfs');
      if (!driver.capabilities.atomic_clone) return;
      const source = await plant('busy-parent');
      await withVolume(source, OWNER, async (open) => {
        await using session = await open('postgres');
        await session.query('CREATE TABLE public.here (number int); CREATE TABLE public.there (number int)');
        let committed = 0;
        let writing = true;
        const writer = (async () => {
          await using other = await open('postgres');
          while (writing) {
            await other.query(
              `WITH a AS (INSERT INTO public.here VALUES (${committed}) RETURNING number) INSERT INTO public.there SELECT number FROM a`,
            );
            committed += 1;
          }
        })();
        try {
          await until(
            async () => committed,
            (count) => count > 20,
          );
          const acknowledged = committed;
          const clone = await driver.ensureCloned(source, 'busy-child', { omit_files: ['postmaster.pid'] });
          await withVolume(clone, OWNER, async (openClone) => {
            await using cloned = await openClone('postgres');
            const { rows } = await cloned.query(
              'SELECT (SELECT count(*)::int FROM public.here) AS here, (SELECT count(*)::int FROM public.there) AS there',
            );
            assert.equal(rows[0].here, rows[0].there);
            assert.ok(Number(rows[0].here) >= acknowledged, `${rows[0].here} of ${acknowledged}`);
          });
        } finally {
          writing = false;
          await writer;
        }
      });
      for (const id of ['busy-parent', 'busy-child']) await driver.ensureDeleted(id);
    });
  },
  { only: (name) => name === 'reflink-xfs' || name === 'btrfs-btrfs' },
);
