import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, beforeEach, describe, it } from 'node:test';
import { BRANCH, ENDPOINT, type GatedPostgres, openGatedPostgres, PASSWORD, ROLE } from '../support/gated-postgres.ts';
import { until } from '../support/until.ts';

const NOTICE = /the branch is being brought back from the archive/;

describe('a client whose branch is in the archive', () => {
  let gated: GatedPostgres;
  /** Ends the wake that goes on. */
  let arrive: () => Promise<void>;

  before(async () => {
    // Far too short for anybody who is not told of the archive.
    gated = await openGatedPostgres({ limits: { wake_timeout_ms: 1_500, archive_notice_ms: 100 } });
  });
  after(() => gated?.[Symbol.asyncDispose]());
  beforeEach(async () => {
    await gated.postmaster.stop();
    const { promise, resolve } = Promise.withResolvers<void>();
    gated.waker.archived = true;
    gated.waker.onWake = async () => {
      await promise;
      await gated.postmaster.start();
    };
    arrive = async () => resolve();
  });

  it('is told so, and served however long it takes', async () => {
    const client = gated.client();
    const noticed = once(client, 'notice');
    const connected = client.connect();
    const [notice] = await noticed;
    assert.match(notice.message, NOTICE);
    assert.equal(notice.severity, 'NOTICE');
    const patience = AbortSignal.timeout(1_600);
    await until(() => patience.aborted, { what: 'the time to pass that others wait' });
    await arrive();
    await connected;
    assert.equal((await client.query('select 1 as one')).rows[0].one, 1);
    await client.end();
  });

  it('is told so when it looks into the past, too', async () => {
    const brought = Promise.withResolvers<void>();
    gated.waker.onTravel = () => brought.promise;
    gated.waker.onWake = () => gated.postmaster.start();
    const client = gated.client({ options: `endpoint=${BRANCH} neon_lsn:0/1A2B3C8` });
    const noticed = once(client, 'notice');
    const connected = client.connect();
    const [notice] = await noticed;
    assert.match(notice.message, NOTICE);
    const patience = AbortSignal.timeout(1_600);
    await until(() => patience.aborted, { what: 'the time to pass that others wait' });
    brought.resolve();
    await connected;
    assert.equal((await client.query('select 1 as one')).rows[0].one, 1);
    await client.end();
  });

  it('reads it in psql', async () => {
    const { port } = gated;
    const process = gated.psqlProcess(
      `host=127.0.0.1 port=${port} user=${ROLE} dbname=neondb options=endpoint=${ENDPOINT}`,
      'select 1',
    );
    let errors = '';
    let output = '';
    process.stderr!.setEncoding('utf8').on('data', (text) => (errors += text));
    process.stdout!.setEncoding('utf8').on('data', (text) => (output += text));
    const ended = once(process, 'exit');
    await until(() => NOTICE.test(errors), { what: 'psql to print the notice' });
    await arrive();
    assert.deepEqual((await ended)[0], 0);
    assert.match(output, /1/);
    assert.ok(!errors.includes(PASSWORD));
  });

  it('hears nothing when the branch is not there', async () => {
    const asked = Promise.withResolvers<void>();
    const { comesFromArchive } = gated.waker;
    gated.waker.comesFromArchive = async () => {
      asked.resolve();
      return false;
    };
    gated.waker.onWake = async () => {
      await asked.promise;
      await gated.postmaster.start();
    };
    // Nothing makes it wait longer, so it gets the time that a start may take.
    const { addresses } = await gated.openGateway({ limits: { archive_notice_ms: 100 } });
    const client = gated.client({ port: addresses[0]!.port });
    let notices = 0;
    client.on('notice', () => (notices += 1));
    await client.connect();
    await client.end();
    gated.waker.comesFromArchive = comesFromArchive;
    assert.equal(notices, 0);
  });
});
