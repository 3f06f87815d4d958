import assert from 'node:assert/strict';
import { networkInterfaces } from 'node:os';
import { after, before, describe, it } from 'node:test';
import type pg from 'pg';
import { saslInitialResponse, saslResponse, startupMessage } from '../../src/wire/frontend-messages.ts';
import { ENDPOINT, type GatedPostgres, openGatedPostgres, PASSWORD, ROLE } from '../support/gated-postgres.ts';
import { until } from '../support/until.ts';
import { openWire } from '../support/wire-client.ts';

let gated: GatedPostgres;
before(async () => {
  gated = await openGatedPostgres();
  await gated.postmaster.query(`
    CREATE ROLE without_login NOLOGIN PASSWORD '${PASSWORD}';
    CREATE ROLE expired LOGIN PASSWORD '${PASSWORD}' VALID UNTIL '2001-01-01';
    CREATE ROLE without_password LOGIN;
    CREATE ROLE made_later LOGIN PASSWORD '${PASSWORD}'`);
  for (const name of ['without_login', 'expired', 'without_password']) {
    await gated.directory.role(ENDPOINT, name, { refresh: true });
  }
});
after(() => gated?.[Symbol.asyncDispose]());

const refused = async (config: pg.ClientConfig, expected: object) => {
  await assert.rejects(gated.client(config).connect(), expected);
};

describe('a connection that cannot be served', () => {
  it('is told why, with the SQLSTATE, and the session that the log knows', async () => {
    const error = await gated.connect({ password: 'wrong' }).then(
      () => assert.fail('was let in'),
      (error: pg.DatabaseError) => error,
    );
    assert.equal(error.code, '28P01');
    assert.equal(error.severity, 'FATAL');
    assert.equal(error.message, `password authentication failed for user '${ROLE}'`);
    const session_id = /^session_id: ([0-9a-f-]{36})$/.exec(error.detail!)![1];
    const line = () => gated.logged.find((record) => record.session_id === session_id);
    await until(() => line() !== undefined, { what: 'the line in the log' });
    assert.deepEqual([line()!.error_kind, line()!.user, line()!.endpoint_id], ['user', ROLE, ENDPOINT]);
  });

  const cases: [string, pg.ClientConfig, object][] = [
    ['names no endpoint', { options: undefined }, { code: '08004', message: /^Endpoint ID is not specified/ }],
    [
      'names two endpoints',
      { options: `endpoint=${ENDPOINT} endpoint=x` },
      { message: /^Endpoint ID is not specified/ },
    ],
    [
      'has a malformed endpoint',
      { options: 'endpoint=a_b' },
      { code: '08004', message: /^Project name \('a_b'\) must/ },
    ],
    ['has an empty user', { user: '' }, { code: '28000', message: "Parameter 'user' is missing in startup packet." }],
  ];
  for (const [name, config, expected] of cases) it(name, () => refused(config, expected));

  it('names different endpoints in TLS and in the options', async () => {
    const ssl = { ca: gated.authority_pem, servername: `${ENDPOINT}.localhost` };
    const message = `Inconsistent project name inferred from SNI ('${ENDPOINT}') and project option ('ep-other').`;
    await refused({ ssl, options: 'endpoint=ep-other' }, { code: '08004', message });
    const agreed = await gated.connect({ ssl, options: `endpoint=${ENDPOINT}-pooler` });
    await agreed.end();
  });

  it('has a password message without an end', async () => {
    const wire = await openWire(gated.port);
    wire.send(startupMessage([['user', ROLE]]));
    await wire.until('R');
    wire.send(Buffer.from('70000000067077', 'hex'));
    await assert.rejects(wire.until('R'), { message: 'Malformed password message: missing terminator' });
  });

  it('asks for physical replication in any of its spellings', async () => {
    for (const value of ['true', 'on', 'yes', '1', 'T', 'tr', 'Y']) {
      const wire = await openWire(gated.port);
      wire.send(
        startupMessage([
          ['user', ROLE],
          ['options', `endpoint=${ENDPOINT}`],
          ['replication', value],
        ]),
      );
      await assert.rejects(wire.until('R'), { message: /^Physical replication is not available/ }, value);
    }
  });

  it('is for a disabled endpoint, which only who may enter learns', async () => {
    gated.directory.entry = { ...gated.directory.entry, disabled: true };
    try {
      await refused({}, { code: '55000', message: `endpoint is disabled: '${ENDPOINT}'` });
      await refused({ password: 'wrong' }, { code: '28P01' });
    } finally {
      gated.directory.entry = { ...gated.directory.entry, disabled: false };
    }
  });
});

describe('plaintext', () => {
  it('is refused where TLS is required, also from loopback', async () => {
    const { addresses } = await gated.openGateway({ require_tls: true });
    const message = 'connection is insecure (try using `sslmode=require`)';
    await refused({ port: addresses[0]!.port }, { code: '08004', message });
    const ssl = { ca: gated.authority_pem, servername: `${ENDPOINT}.localhost` };
    await (await gated.connect({ port: addresses[0]!.port, ssl })).end();
  });

  it('is refused from anywhere else', async (context) => {
    const other = Object.values(networkInterfaces())
      .flat()
      .find((found) => found && !found.internal && found.family === 'IPv4');
    if (!other) return context.skip('this machine has no address but loopback');
    const { addresses } = await gated.openGateway({ listen: [{ host: other.address, port: 0 }] });
    await refused({ host: other.address, port: addresses[0]!.port }, { message: /^connection is insecure/ });
  });
});

/** What the server says to a wrong proof, without what is random, and without the last header, whose length is the name's. */
async function answers(user: string, options: string): Promise<string[]> {
  const wire = await openWire(gated.port);
  wire.send(
    startupMessage([
      ['user', user],
      ['options', options],
    ]),
  );
  wire.send(saslInitialResponse('SCRAM-SHA-256', 'n,,n=,r=abc'));
  const [offer] = await wire.until('R');
  const [challenge] = await wire.until('R');
  const serverFirst = challenge!.body.subarray(4).toString();
  const nonce = /r=([^,]+)/.exec(serverFirst)![1];
  wire.send(saslResponse(`c=biws,r=${nonce},p=${Buffer.alloc(32).toString('base64')}`));
  const rest = await wire.rest();
  const [, salt, iterations] = /,s=([^,]+),i=(\d+)$/.exec(serverFirst)!;
  return [
    offer!.raw.toString('hex'),
    `${challenge!.raw.length} bytes, ${nonce!.length} of nonce, ${salt!.length} of salt, ${iterations} iterations`,
    rest
      .toString('latin1', 5)
      .replace(/[0-9a-f-]{36}/, 'session')
      .replaceAll(user, 'user'),
  ];
}

describe('who may not enter', () => {
  it('gets the same answers, whether the endpoint, the role or only the password is unknown', async () => {
    const option = `endpoint=${ENDPOINT}`;
    const expected = await answers(ROLE, option);
    assert.match(expected[2]!, /password authentication failed for user 'user'/);
    assert.deepEqual(await answers('nobody_at_all', option), expected, 'unknown role');
    assert.deepEqual(await answers(ROLE, 'endpoint=ep-unknown'), expected, 'unknown endpoint');
    assert.deepEqual(await answers('without_login', option), expected, 'a role that may not log in');
    assert.deepEqual(await answers('expired', option), expected, 'an expired password');
    assert.deepEqual(await answers('without_password', option), expected, 'a role without a password');
    assert.deepEqual(await answers('cloud_admin', option), expected, "the platform's own role");
  });

  it('gets the same salt each time', async () => {
    const salt = async (user: string) => {
      const wire = await openWire(gated.port);
      wire.send(
        startupMessage([
          ['user', user],
          ['options', `endpoint=${ENDPOINT}`],
        ]),
      );
      wire.send(saslInitialResponse('SCRAM-SHA-256', 'n,,n=,r=abc'));
      await wire.until('R');
      const [challenge] = await wire.until('R');
      wire.close();
      return /,s=([^,]+)/.exec(challenge!.body.toString())![1];
    };
    assert.equal(await salt('nobody_at_all'), await salt('nobody_at_all'));
    assert.notEqual(await salt('nobody_at_all'), await salt('nobody_else'));
  });

  it('does not enter with the right password either when the role may not log in or has expired', async () => {
    for (const user of ['without_login', 'expired']) {
      await refused({ user }, { code: '28P01' });
      await refused({ user, options: undefined, password: `endpoint=${ENDPOINT};${PASSWORD}` }, { code: '28P01' });
    }
  });

  it('wakes nothing', async () => {
    await gated.postmaster.stop();
    const { wakes } = gated.waker;
    await refused({ password: 'wrong' }, { code: '28P01' });
    await refused({ user: 'nobody_at_all' }, { code: '28P01' });
    await refused({ options: undefined, password: `endpoint=${ENDPOINT};wrong` }, { code: '28P01' });
    assert.equal(gated.waker.wakes, wakes);
    assert.equal(gated.postmaster.running, false);
    await gated.postmaster.start();
  });
});

describe('what changed in SQL', () => {
  it('lets a new role in at its first attempt', async () => {
    const client = await gated.connect({ user: 'made_later' });
    await client.end();
  });

  it('lets a new password in: a cleartext one at once, with SCRAM at the second attempt', async () => {
    const change = async (password: string) => {
      await gated.postmaster.query(`ALTER ROLE made_later PASSWORD '${password}'`);
    };
    await change('second');
    const cleartext = { user: 'made_later', options: undefined, password: `endpoint=${ENDPOINT};second` };
    await (await gated.connect(cleartext)).end();
    await change('third');
    await refused({ user: 'made_later', password: 'third' }, { code: '28P01' });
    await (await gated.connect({ user: 'made_later', password: 'third' })).end();
  });

  it('keeps an old password out, though it is still believed here', async () => {
    await (await gated.connect()).end();
    await gated.postmaster.query(`ALTER ROLE ${ROLE} PASSWORD 'another'`);
    await refused({}, { code: '28P01', message: `password authentication failed for user "${ROLE}"` });
    await (await gated.connect({ password: 'another' })).end();
    await gated.postmaster.query(`ALTER ROLE ${ROLE} PASSWORD '${PASSWORD}'`);
    await gated.directory.role(ENDPOINT, ROLE, { refresh: true });
  });

  it('asks the server once for each failed login', async () => {
    gated.directory.refreshed.length = 0;
    await refused({ password: 'wrong' }, { code: '28P01' });
    await refused({ user: 'nobody_at_all' }, { code: '28P01' });
    await refused({ options: undefined, password: `endpoint=${ENDPOINT};wrong` }, { code: '28P01' });
    await refused({ options: 'endpoint=ep-unknown' }, { code: '28P01' });
    assert.deepEqual(gated.directory.refreshed, [ROLE, 'nobody_at_all', ROLE]);
  });
});
