import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { readSchemaFindings } from '../../src/postgres/schema-findings.ts';
import { TEMPLATE_DATABASE } from '../../src/postgres/template.ts';
import { admitCustomer, MAJORS, type Nursery, openNursery, withServer } from '../support/postgres.ts';

let nursery: Nursery;
before(async () => {
  nursery = await openNursery();
});
after(() => nursery[Symbol.asyncDispose]());

/** Everything is as it should be but where a comment says otherwise. */
const TABLES = `
  CREATE SCHEMA hidden;
  CREATE TABLE parents (id int PRIMARY KEY, other int, UNIQUE (id, other));
  CREATE TABLE keyless (id int); -- no primary key
  CREATE TABLE "odd ""name" (id int); -- no primary key
  CREATE TABLE by_hand (id int PRIMARY KEY, parent int REFERENCES parents); -- no index on it
  CREATE TABLE indexed (id int PRIMARY KEY, parent int REFERENCES parents, note text);
  CREATE INDEX ON indexed (parent, note);
  CREATE TABLE two_columns (id int PRIMARY KEY, a int, b int, FOREIGN KEY (a, b) REFERENCES parents (id, other));
  CREATE INDEX ON two_columns (b, a);
  CREATE TABLE second_column (id int PRIMARY KEY, parent int REFERENCES parents); -- it does not begin the index
  CREATE INDEX ON second_column (id, parent);
  CREATE TABLE included (id int PRIMARY KEY, a int, b int, FOREIGN KEY (a, b) REFERENCES parents (id, other)); -- not a key of it
  CREATE INDEX ON included (a) INCLUDE (b);
  CREATE TABLE in_part (id int PRIMARY KEY, parent int REFERENCES parents); -- the index does not have all rows
  CREATE INDEX ON in_part (parent) WHERE parent > 0;
  CREATE TABLE parted (id int, at date, PRIMARY KEY (id, at), parent int REFERENCES parents) PARTITION BY RANGE (at); -- once
  CREATE TABLE part PARTITION OF parted FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
  CREATE TABLE for_all (id int PRIMARY KEY);
  GRANT SELECT ON for_all TO PUBLIC; -- without row-level security
  CREATE TABLE for_tokens (id int PRIMARY KEY);
  GRANT INSERT ON for_tokens TO anonymous; -- without row-level security
  CREATE TABLE with_policy (id int PRIMARY KEY);
  GRANT SELECT ON with_policy TO PUBLIC;
  ALTER TABLE with_policy ENABLE ROW LEVEL SECURITY;
  CREATE TABLE hidden.unreachable (id int PRIMARY KEY);
  GRANT SELECT ON hidden.unreachable TO PUBLIC;
  CREATE TABLE only_referenced (id int PRIMARY KEY);
  GRANT REFERENCES ON only_referenced TO PUBLIC;`;

for (const major of MAJORS) {
  describe(`the lints on ${major}`, () => {
    test('find what they are for, and nothing else', async () => {
      await withServer(await nursery.plant(major), { fsync: 'off' }, async (open) => {
        await using postgres = await open('postgres');
        await postgres.query('CREATE ROLE anonymous');
        const customer = await (await admitCustomer(postgres))();
        await using session = await open(TEMPLATE_DATABASE);
        assert.deepEqual(await readSchemaFindings(session), []);
        await customer.query(TABLES);
        const unindexed = (table: string, ...columns: string[]) => ({
          lint: 'unindexed_foreign_keys',
          schema: 'public',
          table,
          constraint: `${table}_${columns.join('_')}_fkey`,
          columns,
        });
        const found = [
          { lint: 'no_primary_key', schema: 'public', table: 'keyless' },
          { lint: 'no_primary_key', schema: 'public', table: 'odd "name' },
          { lint: 'rls_disabled_in_public', schema: 'public', table: 'for_all' },
          { lint: 'rls_disabled_in_public', schema: 'public', table: 'for_tokens' },
          unindexed('by_hand', 'parent'),
          unindexed('in_part', 'parent'),
          unindexed('included', 'a', 'b'),
          unindexed('parted', 'parent'),
          unindexed('second_column', 'parent'),
        ];
        assert.deepEqual(await readSchemaFindings(session), found);
        assert.deepEqual(await readSchemaFindings(session, { findings_max: 2 }), found.slice(0, 2));
        await customer.end();
      });
    });
  });
}
