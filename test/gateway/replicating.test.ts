import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { query } from '../../src/wire/frontend-messages.ts';
import { message } from '../../src/wire/message.ts';
import { ENDPOINT, type GatedPostgres, openGatedPostgres, PASSWORD, ROLE } from '../support/gated-postgres.ts';
import { until } from '../support/until.ts';
import { logIn, openWire, type WireClient } from '../support/wire-client.ts';

let gated: GatedPostgres;
before(async () => {
  gated = await openGatedPostgres();
  await gated.postmaster.query(`CREATE TABLE replicated (i int PRIMARY KEY); ALTER TABLE replicated OWNER TO ${ROLE};
    CREATE PUBLICATION all_of_it FOR TABLE replicated`);
});
after(() => gated?.[Symbol.asyncDispose]());

async function openReplication(): Promise<WireClient> {
  const wire = await openWire(gated.port);
  const options = `endpoint=${ENDPOINT}`;
  await logIn(wire, { user: ROLE, database: 'neondb', replication: 'database', options }, PASSWORD);
  await wire.until('Z');
  return wire;
}

/** Letters of the answer, up to and with the one given. */
async function answer(wire: WireClient, sql: string, last = 'Z'): Promise<string> {
  wire.send(query(sql));
  return (await wire.until(last)).map(({ letter }) => letter).join('');
}

describe('logical replication', () => {
  it('passes: the system, a slot, a stream of changes', async () => {
    const wire = await openReplication();
    assert.match(await answer(wire, 'IDENTIFY_SYSTEM'), /^TD.*Z$/);
    assert.match(await answer(wire, 'SHOW wal_level'), /^TD.*Z$/);
    assert.match(await answer(wire, 'SELECT 1'), /^TD.*Z$/);
    assert.match(await answer(wire, "CREATE_REPLICATION_SLOT passed LOGICAL pgoutput (SNAPSHOT 'nothing')"), /^TD.*Z$/);
    const start = "START_REPLICATION SLOT passed LOGICAL 0/0 (proto_version '1', publication_names 'all_of_it')";
    assert.equal(await answer(wire, start, 'W'), 'W');
    await gated.postmaster.query('INSERT INTO replicated VALUES (42)');
    let changes = '';
    while (!changes.includes('I')) {
      const [data] = (await wire.until('d')).slice(-1);
      // XLogData: a header of 25 bytes, then the change.
      if (data!.body[0] === 0x77) changes += String.fromCharCode(data!.body[25]!);
    }
    wire.send(message('c', Buffer.alloc(0)));
    await wire.until('Z');
    assert.match(await answer(wire, 'DROP_REPLICATION_SLOT passed WAIT'), /Z$/);
    wire.close();
  });

  it('refuses what would copy the cluster, in order, and goes on', async () => {
    const wire = await openReplication();
    for (const sql of ['BASE_BACKUP', " base_backup (LABEL 'x')", 'CREATE_REPLICATION_SLOT refused PHYSICAL']) {
      wire.send(query('SELECT 1'), query(sql), query('SELECT 2'));
      await wire.until('Z');
      await assert.rejects(wire.until('Z'), /is not allowed through the gateway$/, sql);
      await wire.until('Z');
      assert.match((await wire.until('Z')).map(({ letter }) => letter).join(''), /^TDCZ$/);
    }
    await assert.rejects(answer(wire, 'START_REPLICATION 0/0'), /^Error: physical START_REPLICATION is not allowed/i);
    wire.close();
  });

  it('cannot be fooled by what the server does not take for a replication command', async () => {
    const wire = await openReplication();
    for (const sql of [
      '/* c */ BASE_BACKUP',
      '-- c\nBASE_BACKUP',
      '"BASE_BACKUP"',
      'SELECT 1; BASE_BACKUP',
      ';BASE_BACKUP',
    ]) {
      await assert.rejects(answer(wire, sql), /syntax error/, sql);
      await wire.until('Z');
    }
    wire.send(message('P', Buffer.from('\0BASE_BACKUP\0\0\0')));
    await assert.rejects(wire.until('Z'), /extended query protocol not supported in a replication connection/);
    wire.close();
  });

  it('ends its walsender when the client leaves', async () => {
    const wire = await openReplication();
    await answer(wire, 'CREATE_REPLICATION_SLOT left TEMPORARY LOGICAL pgoutput');
    wire.send(query("START_REPLICATION SLOT left LOGICAL 0/0 (proto_version '1', publication_names 'all_of_it')"));
    await wire.until('W');
    wire.close();
    const gone = async () => (await gated.postmaster.query('SELECT 1 FROM pg_stat_replication')).rows.length === 0;
    await until(gone, { what: 'the walsender to end' });
  });

  it('is served to a real subscription', async () => {
    await gated.postmaster.query('CREATE TABLE pulled (i int)');
    const conninfo = `host=127.0.0.1 port=${gated.port} user=${ROLE} password=${PASSWORD} dbname=neondb sslmode=disable options=endpoint=${ENDPOINT}`;
    await gated.postmaster.query(`CREATE PUBLICATION pulled FOR TABLE pulled`);
    await gated.postmaster.query('CREATE DATABASE subscriber');
    await gated.postmaster.query('CREATE TABLE pulled (i int)', 'subscriber');
    await gated.postmaster.query(`INSERT INTO pulled SELECT generate_series(1, 1000)`);
    const slot = await openReplication();
    await answer(slot, "CREATE_REPLICATION_SLOT subscribed LOGICAL pgoutput (SNAPSHOT 'nothing')");
    slot.close();
    await gated.postmaster.query(
      `CREATE SUBSCRIPTION pulled CONNECTION '${conninfo}' PUBLICATION pulled WITH (create_slot = false, slot_name = subscribed)`,
      'subscriber',
    );
    await gated.postmaster.query(`INSERT INTO pulled SELECT generate_series(1001, 2000)`);
    const pulled = async () => {
      const { rows } = await gated.postmaster.query('SELECT count(*)::int AS count FROM pulled', 'subscriber');
      return rows[0].count === 2000;
    };
    await until(pulled, { what: 'the rows to arrive' });
    await gated.postmaster.query('ALTER SUBSCRIPTION pulled DISABLE', 'subscriber');
    await gated.postmaster.query('ALTER SUBSCRIPTION pulled SET (slot_name = NONE)', 'subscriber');
    await gated.postmaster.query('DROP SUBSCRIPTION pulled', 'subscriber');
  });
});
