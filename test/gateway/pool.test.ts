import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type pg from 'pg';
import { ENDPOINT, type GatedPostgres, openGatedPostgres } from '../support/gated-postgres.ts';

let gated: GatedPostgres;
before(async () => {
  gated = await openGatedPostgres({ limits: { half_close_timeout_ms: 500, linger_timeout_ms: 500 } });
  gated.directory.entry = { ...gated.directory.entry, pool_size: 4 };
});
after(() => gated?.[Symbol.asyncDispose]());

const POOLED = { options: `endpoint=${ENDPOINT}-pooler` };
const connect = (config: pg.ClientConfig = {}) => gated.connect({ ...POOLED, ...config });

describe('a pooled host', () => {
  it('answers queries, simple and extended', async () => {
    const client = await connect();
    assert.deepEqual((await client.query('SELECT 1 AS one')).rows, [{ one: 1 }]);
    assert.deepEqual((await client.query('SELECT $1::int AS one', [7])).rows, [{ one: 7 }]);
    assert.deepEqual((await client.query({ name: 'a', text: 'SELECT $1::int AS one', values: [8] })).rows, [{ one: 8 }]);
    assert.deepEqual((await client.query({ name: 'a', text: 'SELECT $1::int AS one', values: [9] })).rows, [{ one: 9 }]);
    await client.end();
  });
});
