import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { after, before, describe, it } from 'node:test';
import type pg from 'pg';
import copy from 'pg-copy-streams';
import { query } from '../../src/wire/frontend-messages.ts';
import { message } from '../../src/wire/message.ts';
import { ENDPOINT, type GatedPostgres, openGatedPostgres, PASSWORD, ROLE } from '../support/gated-postgres.ts';
import { heldBytes } from '../support/held-bytes.ts';
import { until } from '../support/until.ts';
import { logIn, openDirectTls, openWire, type WireClient } from '../support/wire-client.ts';

const STARTUP = { user: ROLE, database: 'neondb', options: `endpoint=${ENDPOINT}` };
const TERMINATE = message('X', Buffer.alloc(0));

let gated: GatedPostgres;
const ports = new Map<string, number>();
before(async () => {
  gated = await openGatedPostgres({ limits: { half_close_timeout_ms: 500, linger_timeout_ms: 500 } });
  for (const [name, raw_splice] of [
    ['handles', true],
    ['streams', false],
  ] as const) {
    ports.set(name, (await gated.openGateway({ raw_splice })).addresses[0]!.port);
  }
});
after(() => gated?.[Symbol.asyncDispose]());

/** The ways that bytes are moved: all must behave the same. */
const WAYS: [string, () => pg.ClientConfig][] = [
  ['handles', () => ({ port: ports.get('handles')! })],
  ['streams', () => ({ port: ports.get('streams')! })],
  [
    'TLS',
    () => ({ port: ports.get('handles')!, ssl: { ca: gated.authority_pem, servername: `${ENDPOINT}.localhost` } }),
  ],
];

const serverSessions = async (name: string): Promise<number> => {
  const { rows } = await gated.postmaster.query(
    `SELECT count(*)::int AS count FROM pg_stat_activity WHERE application_name = '${name}'`,
  );
  return rows[0].count;
};

for (const [way, config] of WAYS) {
  describe(`large transfers over ${way}`, () => {
    it('carry a large result whole', async () => {
      const client = await gated.connect(config());
      const { rows } = await client.query(
        'SELECT i, repeat(md5(i::text), 200) AS text FROM generate_series(1, 4000) AS i',
      );
      assert.equal(rows.length, 4000);
      const sum = createHash('md5')
        .update(rows.map(({ text }) => text).join(''))
        .digest('hex');
      const expected = await client.query(
        "SELECT md5(string_agg(repeat(md5(i::text), 200), '' ORDER BY i)) AS sum FROM generate_series(1, 4000) AS i",
      );
      assert.equal(sum, expected.rows[0].sum);
      await client.end();
    });

    it('carry COPY in and out, tens of megabytes, with a slow reader', async () => {
      const client = await gated.connect(config());
      await client.query('CREATE TEMP TABLE copied (i int, text text)');
      const rows = 200_000;
      const lines = function* () {
        for (let from = 0; from < rows; from += 1000) {
          yield Array.from({ length: 1000 }, (_, index) => `${from + index}\t${'z'.repeat(150)}\n`).join('');
        }
      };
      await pipeline(Readable.from(lines()), client.query(copy.from('COPY copied FROM STDIN')));
      const out = client.query(copy.to('COPY copied TO STDOUT'));
      let bytes = 0;
      let chunks = 0;
      for await (const chunk of out) {
        bytes += chunk.length;
        // Now and then the reader rests, so that everything before it fills up.
        if (++chunks % 500 === 0) await new Promise((resolve) => setImmediate(resolve));
      }
      const expected = await client.query('SELECT sum(length(i::text) + 152)::int AS bytes, count(*)::int FROM copied');
      assert.deepEqual(expected.rows, [{ bytes, count: rows }]);
      await client.end();
    });

    it('carry many small statements in a row', async () => {
      const client = await gated.connect(config());
      for (let index = 0; index < 2000; index++) {
        const { rows } = await client.query(`SELECT ${index} AS i`);
        assert.deepEqual(rows, [{ i: index }]);
      }
      await client.end();
    });
  });
}

for (const way of ['handles', 'streams']) {
  const open = async (application_name: string) => {
    const wire = await openWire(ports.get(way)!);
    await logIn(wire, { ...STARTUP, application_name }, PASSWORD);
    return wire;
  };

  describe(`backpressure over ${way}`, () => {
    it('stops the server when the client does not read, and goes on when it does', async () => {
      const wire = await open('unread');
      await wire.until('Z');
      const memory = heldBytes();
      wire.stream.pause();
      wire.send(query("SELECT repeat('x', 1000) FROM generate_series(1, 100000)"));
      const waits = async () => {
        const { rows } = await gated.postmaster.query(
          "SELECT wait_event FROM pg_stat_activity WHERE application_name = 'unread'",
        );
        return rows[0]?.wait_event === 'ClientWrite';
      };
      await until(waits, { what: 'the server to be held up' });
      assert.ok(heldBytes() - memory < 20_000_000, 'nothing piles up here');
      wire.stream.resume();
      const seen = await wire.until('Z');
      assert.equal(seen.filter(({ letter }) => letter === 'D').length, 100_000);
      wire.close();
    });
  });

  describe(`the end of a connection over ${way}`, () => {
    it('by a client that only closes its side lets the answers through', async () => {
      // Whose answer takes longer than the patience of the others has left; here it may take long.
      const { addresses } = await gated.openGateway({ raw_splice: way === 'handles', limits: {} });
      const wire = await openWire(addresses[0]!.port, { allowHalfOpen: true });
      await logIn(wire, STARTUP, PASSWORD);
      await wire.until('Z');
      wire.send(query("SELECT pg_sleep(0.2), repeat('y', 500000)"), TERMINATE);
      wire.stream.end();
      const seen = await wire.until('Z');
      assert.ok(seen.find(({ letter }) => letter === 'D')!.body.length > 500_000);
      await wire.rest();
    });

    it('by a client that is gone ends the session of the server', async () => {
      const wire = await open('idle-gone');
      await wire.until('Z');
      wire.close();
      await until(async () => (await serverSessions('idle-gone')) === 0, { what: 'the idle session to end' });
    });

    it('by a client that is gone cancels what the server does for it', async () => {
      for (const reset of [false, true]) {
        const wire = await open('busy-gone');
        await wire.until('Z');
        wire.send(query('SELECT pg_sleep(600)'));
        await until(async () => (await serverSessions('busy-gone')) === 1, { what: 'the query to run' });
        if (reset) (wire.stream as import('node:net').Socket).resetAndDestroy();
        else wire.close();
        await until(async () => (await serverSessions('busy-gone')) === 0, { what: 'the busy session to end' });
      }
    });

    it('by the server tells an idle and a busy client the same error', async () => {
      for (const busy of [false, true]) {
        const wire = await open('terminated');
        await wire.until('Z');
        if (busy) wire.send(query('SELECT pg_sleep(600)'));
        const end = async () => {
          await gated.postmaster.query(
            `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'terminated'
               AND state = '${busy ? 'active' : 'idle'}'`,
          );
          return (await serverSessions('terminated')) === 0;
        };
        await until(end, { what: 'the session to end' });
        await assert.rejects(wire.until('Z'), { message: 'terminating connection due to administrator command' });
        await wire.rest();
      }
    });

    it('leaves nothing open', async () => {
      const name = `clean over ${way}`;
      const wire = await open(name);
      await wire.until('Z');
      wire.send(TERMINATE);
      await wire.rest();
      const record = () => gated.ended.find(({ application_name }) => application_name === name);
      await until(() => record() !== undefined, { what: 'the record of the session' });
      assert.equal(record()!.error_kind, undefined);
    });
  });

  describe(`what a client sends ahead over ${way}`, () => {
    it('is answered as if it had waited', async () => {
      const wire = await openWire(ports.get(way)!);
      await logIn(wire, STARTUP, PASSWORD);
      wire.send(query("SELECT 'ahead'"));
      const seen = [...(await wire.until('Z')), ...(await wire.until('Z'))];
      assert.match(seen.find(({ letter }) => letter === 'D')!.body.toString(), /ahead$/);
      wire.close();
    });
  });
}

for (const way of ['handles', 'TLS']) {
  describe(`the last words of the server over ${way}`, () => {
    it('reach a client that is still sending', async () => {
      for (let round = 0; round < 10; round++) {
        const wire = await openSender(way);
        const data = message('d', Buffer.from(`${'x'.repeat(60_000)}\n`));
        let sending = true;
        const sender = (async () => {
          while (sending) {
            wire.send(data);
            await new Promise((resolve) => setImmediate(resolve));
          }
        })();
        await gated.postmaster.query(
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sending'",
        );
        const words = await wire.until('Z').then(String, String);
        sending = false;
        await sender;
        wire.close();
        assert.match(words, /terminating connection due to administrator command/);
      }
    });
  });
}

/** A session in the middle of COPY FROM STDIN. */
async function openSender(way: string): Promise<WireClient> {
  const servername = `${ENDPOINT}.localhost`;
  const tls = { servername, ca: gated.authority_pem, ALPNProtocols: ['postgresql'] };
  const wire = way === 'TLS' ? await openDirectTls(gated.port, tls) : await openWire(gated.port);
  await logIn(wire, { ...STARTUP, application_name: 'sending' }, PASSWORD);
  wire.send(query('CREATE TEMP TABLE t (x text)'), query('COPY t FROM STDIN'));
  await wire.until('G');
  return wire;
}
