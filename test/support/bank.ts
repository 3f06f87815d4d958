import assert from 'node:assert/strict';
import type pg from 'pg';
import { until } from './until.ts';

const ACCOUNTS = 20_000;
const TELLERS = 50;
const BRANCHES = 5;
const CLIENTS = 8;

/** Of each client, the number of a transaction. */
export type Counts = readonly number[];

/**
 * Clients that move money as TPC-B has it, while another one changes tables and a third one forces checkpoints. Every
 * balance is the sum of what history says, and each client's history has no gap.
 */
export interface Bank {
  /** The last transaction that each client was told to be committed. */
  committed(): Counts;
  /** The last one that each has asked for. */
  asked(): Counts;
  /** Waits until so many more were committed; fails when a client has failed. */
  progress(transactions: number): Promise<void>;
  /** Ends all of it, and throws what went wrong. */
  stop(): Promise<void>;
}

const SCHEMA = `
  CREATE SCHEMA bank;
  CREATE TABLE bank.branches (bid int PRIMARY KEY, balance bigint NOT NULL DEFAULT 0, filler text);
  CREATE TABLE bank.tellers (tid int PRIMARY KEY, balance bigint NOT NULL DEFAULT 0, filler text);
  CREATE TABLE bank.accounts (aid int PRIMARY KEY, balance bigint NOT NULL DEFAULT 0, filler char(80));
  CREATE TABLE bank.history (client int, n int, aid int, delta int, filler text, PRIMARY KEY (client, n));
  CREATE INDEX ON bank.history (aid);
  CREATE TABLE bank.scratch (n int, filler text);
  CREATE UNLOGGED TABLE bank.passing (n int);
  INSERT INTO bank.branches SELECT n FROM generate_series(1, ${BRANCHES}) n;
  INSERT INTO bank.tellers SELECT n FROM generate_series(1, ${TELLERS}) n;
  INSERT INTO bank.accounts SELECT n, 0, '' FROM generate_series(1, ${ACCOUNTS}) n`;

/** What is done to tables meanwhile; each can be done at any time. */
const CHANGES: readonly ((n: number) => string)[] = [
  (n) => `CREATE TABLE bank.made_${n} AS SELECT g AS n, repeat('x', 200) AS filler FROM generate_series(1, 2000) g`,
  () => `DO $$ DECLARE made regclass; BEGIN
    SELECT oid INTO made FROM pg_class WHERE relname LIKE 'made_%' AND relkind = 'r' ORDER BY oid LIMIT 1;
    IF made IS NOT NULL THEN EXECUTE 'DROP TABLE ' || made; END IF; END $$`,
  () => `TRUNCATE bank.scratch`,
  () => `INSERT INTO bank.scratch SELECT g, repeat('y', 300) FROM generate_series(1, 3000) g`,
  () => `DELETE FROM bank.scratch`,
  () => `VACUUM bank.scratch`,
  () => `VACUUM FULL bank.tellers`,
  () => `VACUUM bank.accounts, bank.branches`,
  () => `REINDEX INDEX bank.accounts_pkey`,
  () => `ALTER TABLE bank.scratch ALTER n TYPE bigint`,
  () => `ALTER TABLE bank.scratch ALTER n TYPE int`,
  () => `INSERT INTO bank.passing SELECT generate_series(1, 1000)`,
  () => `BEGIN; CREATE TABLE bank.never AS SELECT generate_series(1, 2000) n; ROLLBACK`,
  () => `VACUUM FULL pg_class`,
];

/** @param connect a session that may do everything */
export async function openBank(connect: () => Promise<pg.Client>, random: () => number): Promise<Bank> {
  const below = (limit: number): number => Math.floor(random() * limit);
  const admin = await connect();
  await admin.query(SCHEMA);
  await admin.end();
  const asked = Array<number>(CLIENTS).fill(0);
  const committed = Array<number>(CLIENTS).fill(0);
  const total = () => committed.reduce((sum, n) => sum + n, 0);
  let stopped = false;
  let problem: unknown;

  const work = async (round: (client: pg.Client) => Promise<void>) => {
    try {
      const client = await connect();
      while (!stopped) await round(client);
      await client.end();
    } catch (error) {
      problem ??= error;
      stopped = true;
    }
  };
  const progress = async (transactions: number) => {
    const goal = total() + transactions;
    await until(() => stopped || total() >= goal, { what: `${transactions} transactions`, timeout_ms: 120_000 });
    if (problem) throw problem;
  };
  const transact = (client: number) => async (session: pg.Client) => {
    if (below(20) === 0) await session.query(`BEGIN; ${transaction(below, { client, n: 0 })} ROLLBACK`);
    const n = ++asked[client]!;
    await session.query(`BEGIN; ${transaction(below, { client, n })} COMMIT`);
    committed[client] = n;
  };
  let changes = 0;
  const workers = [
    ...asked.map((_, client) => work(transact(client))),
    work(async (session) => {
      await session.query(CHANGES[below(CHANGES.length)]!(++changes));
    }),
    work(async (session) => {
      await progress(below(2000)).catch(() => undefined);
      await session.query('CHECKPOINT');
    }),
  ];
  return {
    committed: () => [...committed],
    asked: () => [...asked],
    progress,
    stop: async () => {
      stopped = true;
      await Promise.all(workers);
      if (problem) throw problem;
    },
  };
}

function transaction(below: (limit: number) => number, { client, n }: { client: number; n: number }): string {
  const [aid, tid, bid] = [1 + below(ACCOUNTS), 1 + below(TELLERS), 1 + below(BRANCHES)];
  const delta = below(10_000) - 5000;
  return `
    SELECT FROM bank.branches WHERE bid = ${bid} FOR KEY SHARE;
    UPDATE bank.accounts SET balance = balance + ${delta} WHERE aid = ${aid};
    SAVEPOINT s; UPDATE bank.tellers SET balance = balance + 1000000 WHERE tid = ${tid}; ROLLBACK TO s;
    UPDATE bank.tellers SET balance = balance + ${delta} WHERE tid = ${tid};
    SAVEPOINT s;
    UPDATE bank.branches SET balance = balance + ${delta} WHERE bid = ${bid};
    INSERT INTO bank.history VALUES (${client}, ${n}, ${aid}, ${delta}, repeat('z', ${below(300)}));`;
}

/**
 * A copy holds all that was committed before, nothing that was asked for later, no half of anything, and no page or
 * index that is damaged.
 */
export async function checkBank(session: pg.Client, { least, most }: { least: Counts; most: Counts }): Promise<void> {
  for (let client = 0; client < CLIENTS; client++) {
    const { rows } = await session.query(
      'SELECT count(*)::int AS count, coalesce(max(n), 0) AS last FROM bank.history WHERE client = $1',
      [client],
    );
    const { count, last } = rows[0];
    assert.equal(count, last, 'no transaction is missing before the last');
    assert.ok(last >= least[client]! && last <= most[client]!, `${least[client]} <= ${last} <= ${most[client]}`);
  }
  const { rows: sums } = await session.query(
    `SELECT (SELECT sum(balance) FROM bank.accounts)::text AS accounts, (SELECT sum(balance) FROM bank.tellers)::text AS
       tellers, (SELECT sum(balance) FROM bank.branches)::text AS branches,
       coalesce((SELECT sum(delta) FROM bank.history), 0)::text AS history,
       (SELECT count(*)::int FROM bank.passing) AS passing`,
  );
  const { accounts, tellers, branches, history, passing } = sums[0];
  assert.deepEqual([accounts, tellers, branches], [history, history, history]);
  assert.equal(passing, 0, 'unlogged tables are empty');
  await session.query('CREATE EXTENSION amcheck SCHEMA bank');
  const { rows: corrupt } = await session.query(
    `SELECT r.oid::regclass::text AS relation, c.* FROM pg_class r, LATERAL bank.verify_heapam(r.oid) c
       WHERE r.relkind IN ('r', 't', 'm') AND r.relpersistence = 'p'`,
  );
  assert.deepEqual(corrupt, []);
  // Reads every page, and so its checksum, too; each entry of a table must be in its index.
  await session.query(
    `SELECT bank.bt_index_parent_check(c.oid, true) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
       WHERE c.relkind = 'i' AND a.amname = 'btree' AND c.relpersistence = 'p'`,
  );
}
