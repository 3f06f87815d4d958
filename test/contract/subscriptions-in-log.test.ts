import assert from 'node:assert/strict';
import { truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { mayHoldSubscriptions } from '../../src/postgres/subscriptions-in-log.ts';
import { copyCluster, MAJORS, type Nursery, openNursery, withServer } from '../support/postgres.ts';
import { WORKLOAD_SETTINGS } from '../support/wal-workload.ts';

let nursery: Nursery;
before(async () => {
  nursery = await openNursery();
});
after(() => nursery[Symbol.asyncDispose]());

/** Without a word to a publisher. */
const SUBSCRIBE = `CREATE SUBSCRIPTION s CONNECTION 'host=/nowhere' PUBLICATION p WITH (connect = false)`;

for (const major of MAJORS) {
  describe(`a directory of ${major} whose log is still to be replayed`, () => {
    /** As a killed server leaves it: nothing since its last checkpoint has reached the files of the catalogue. */
    const written = async (...statements: string[]): Promise<string> => {
      const cluster = await nursery.plant(major);
      const path = nursery.newPath();
      await withServer(cluster, { ...WORKLOAD_SETTINGS, max_logical_replication_workers: '0' }, async (open) => {
        await using session = await open('postgres');
        await session.query('CHECKPOINT');
        for (const statement of statements) await session.query(statement);
        await copyCluster(cluster, path);
      });
      return path;
    };
    const noise =
      "SELECT pg_logical_emit_message(true, 'a', repeat(chr(80 + n % 30), n * 97)) FROM generate_series(1, 300) n";

    /** The catalogue's file as it was before the log. */
    const withoutIt = async (path: string): Promise<string> => {
      await truncate(join(path, 'global/6100'), 0);
      return path;
    };

    test('holds no subscription that nobody made', async () => {
      assert.equal(await mayHoldSubscriptions(await written(noise, 'CREATE TABLE public.t AS SELECT 1')), false);
    });

    for (const lead of [0, 7900, 8100, 8150]) {
      test(`may hold one that its log makes, ${lead} bytes into a page`, async () => {
        const align = `SELECT pg_logical_emit_message(false, 'a', repeat('x', ${lead}))`;
        const path = await withoutIt(await written(noise, align, SUBSCRIBE, noise));
        assert.equal(await mayHoldSubscriptions(path), true);
      });
    }

    test('may hold one that was there before', async () => {
      assert.equal(await mayHoldSubscriptions(await written(SUBSCRIBE, 'CHECKPOINT')), true);
    });

    test('may hold one in a catalogue that was rewritten', async () => {
      assert.equal(await mayHoldSubscriptions(await written('VACUUM FULL pg_subscription')), true);
    });
  });
}
