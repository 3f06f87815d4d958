import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type pg from 'pg';
import { migrate } from '../../src/store/migrate.ts';
import { type StoreServer, startStoreServer, type TestStore } from '../support/store.ts';
import { until } from '../support/until.ts';

/** The version that a store is brought from, and what comes behind it: one that locks tables, and one that builds an index concurrently. */
const BEFORE = 8;
const LOCKING = 'forgotten';
const INDEXING = 'ended-calls';

describe('a migration of a store in use', { timeout: 120_000 }, () => {
  let server: StoreServer;
  before(async () => {
    server = await startStoreServer();
  });
  after(() => server?.stop());

  /** A store as that version left it. */
  const earlierStore = async (count = BEFORE): Promise<TestStore> => {
    const store = await server.createStore();
    await store.pool.query('drop schema coppice, coppice_auth cascade');
    await migrate(store.pool, { count });
    return store;
  };
  /** Undefined when it is not applied. */
  const numberOf = async ({ pool }: TestStore, name: string): Promise<number | undefined> =>
    (await pool.query('select number from coppice.migrations where name = $1', [name])).rows[0]?.number;
  const indexes = async ({ pool }: TestStore, which: string): Promise<number> =>
    (
      await pool.query(
        `select count(*)::int as n from pg_index where indexrelid = to_regclass('coppice.calls_finished_at_idx') and ${which}`,
      )
    ).rows[0].n;
  /** Somebody who reads a table and does not come to an end. */
  const longReader = async (store: TestStore): Promise<pg.PoolClient> => {
    const client = await store.pool.connect();
    await client.query('begin');
    await client.query('select count(*) from coppice.operations');
    return client;
  };

  it('lets go of its locks while somebody is in its way, so that others go on, and is done when nobody is', async () => {
    const store = await earlierStore();
    try {
      const reader = await longReader(store);
      const done = migrate(store.pool, { lock_timeout_ms: 200 });
      done.catch(() => undefined);
      const waits = async () =>
        (await store.pool.query(`select from pg_stat_activity where wait_event_type = 'Lock'`)).rows.length > 0;
      await until(waits, { what: 'the migration to wait for a lock' });
      // Would wait for the reader behind the migration.
      await store.pool.query('select count(*) from coppice.operations');
      await store.pool.query('update coppice.operations set updated_at = now()');
      assert.equal(await numberOf(store, LOCKING), undefined);
      await reader.query('commit');
      reader.release();
      await done;
      assert.notEqual(await numberOf(store, LOCKING), undefined);
    } finally {
      await store.close();
    }
  });

  it('is done once by processes that start together, also where an index takes until everybody else has ended', async () => {
    const store = await earlierStore();
    try {
      await Promise.all([migrate(store.pool), migrate(store.pool), migrate(store.pool)]);
      assert.equal(await indexes(store, 'indisvalid'), 1);
    } finally {
      await store.close();
    }
  });

  it('begins an index anew whose making was interrupted', async () => {
    const newest = await server.createStore();
    const count = await numberOf(newest, INDEXING);
    await newest.close();
    const store = await earlierStore(count);
    try {
      await store.pool.query(`update pg_index set indisvalid = false
        where indexrelid = 'coppice.calls_finished_at_idx'::regclass`);
      await store.pool.query('delete from coppice.migrations where number = $1', [count]);
      assert.equal(await indexes(store, 'not indisvalid'), 1);
      await migrate(store.pool, { count });
      assert.equal(await indexes(store, 'indisvalid'), 1);
    } finally {
      await store.close();
    }
  });
});
