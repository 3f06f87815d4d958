import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type GatedPostgres, openGatedPostgres, ROLE } from '../support/gated-postgres.ts';

let gated: GatedPostgres;
before(async () => {
  gated = await openGatedPostgres();
});
after(() => gated[Symbol.asyncDispose]());

describe('logging in', () => {
  it('works over plaintext from loopback with the endpoint in the options', async () => {
    const client = await gated.connect();
    const { rows } = await client.query('SELECT current_user, current_database()');
    assert.deepEqual(rows, [{ current_user: ROLE, current_database: 'neondb' }]);
    await client.end();
  });
});
