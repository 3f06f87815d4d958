import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { openCertificateAuthority } from '../../src/gateway/certificate-authority.ts';
import { query, startupMessage } from '../../src/wire/frontend-messages.ts';
import { ENDPOINT, type GatedPostgres, openGatedPostgres, PASSWORD, ROLE } from '../support/gated-postgres.ts';
import { until } from '../support/until.ts';
import { logIn, openDirectTls, openWire } from '../support/wire-client.ts';

let gated: GatedPostgres;
before(async () => {
  gated = await openGatedPostgres();
});
after(() => gated?.[Symbol.asyncDispose]());

const STARTUP = { user: ROLE, database: 'neondb', options: `endpoint=${ENDPOINT}` };

describe('logging in over plaintext from loopback', () => {
  it('works with the endpoint in the options', async () => {
    const client = await gated.connect();
    const { rows } = await client.query('SELECT current_user, current_database()');
    assert.deepEqual(rows, [{ current_user: ROLE, current_database: 'neondb' }]);
    await client.end();
  });

  it('works with the endpoint in front of the password', async () => {
    for (const separator of [';', '$']) {
      const client = await gated.connect({
        options: undefined,
        password: `endpoint=${ENDPOINT}${separator}${PASSWORD}`,
      });
      assert.equal((await client.query('SELECT 1 AS one')).rows[0].one, 1);
      await client.end();
    }
  });

  it('works for libpq with the option in its connection string', async () => {
    const conninfo = `host=127.0.0.1 port=${gated.port} user=${ROLE} dbname=neondb sslmode=disable options=endpoint%3D`;
    const url = `postgresql://${ROLE}@127.0.0.1:${gated.port}/neondb?sslmode=disable&options=endpoint%3D${ENDPOINT}`;
    assert.equal(await gated.psql(url, 'SELECT 1'), '1');
    assert.equal(await gated.psql(conninfo.replace('endpoint%3D', `endpoint=${ENDPOINT}`), 'SELECT 1'), '1');
  });

  it('connects to the database named like the user when none is given', async () => {
    const withoutDatabase = await openWire(gated.port);
    await logIn(withoutDatabase, { user: ROLE, options: `endpoint=${ENDPOINT}` }, PASSWORD);
    await assert.rejects(withoutDatabase.until('Z'), { message: `database "${ROLE}" does not exist` });
  });

  it('takes a pooled name as well', async () => {
    const client = await gated.connect({ options: `endpoint=${ENDPOINT}-pooler` });
    await client.end();
  });
});

describe('what the client asks for at the start', () => {
  it('reaches the server: settings, application name, encoding', async () => {
    const client = await gated.connect({
      options: `-c search_path=a,\\ b endpoint=${ENDPOINT} -c statement_timeout=12345`,
      application_name: 'a test',
    });
    const { rows } = await client.query(
      `SELECT current_setting('search_path') AS path, current_setting('statement_timeout') AS timeout,
              current_setting('application_name') AS name`,
    );
    assert.deepEqual(rows, [{ path: 'a, b', timeout: '12345ms', name: 'a test' }]);
    await client.end();
    const url = `postgresql://${ROLE}@127.0.0.1:${gated.port}/neondb?sslmode=disable&options=endpoint%3D${ENDPOINT}`;
    const shown = await gated.psql(url, "SELECT current_setting('client_encoding'), chr(233) = U&'\\00E9'", {
      PGCLIENTENCODING: 'LATIN1',
    });
    assert.equal(shown, 'LATIN1|t');
  });

  it('is refused by the server where that refuses it, in its own words', async () => {
    const refused = gated.client({ options: `endpoint=${ENDPOINT} -c no_such_setting=1` }).connect();
    await assert.rejects(refused, { code: '42704', message: 'unrecognized configuration parameter "no_such_setting"' });
  });

  it('gets the answers of the server: its parameters, and a key of our own', async () => {
    const wire = await openWire(gated.port);
    await logIn(wire, STARTUP, PASSWORD);
    const greeting = await wire.until('Z');
    const parameters = greeting
      .filter(({ letter }) => letter === 'S')
      .map(({ body }) => body.toString().split('\0')[0]);
    for (const name of ['server_version', 'client_encoding', 'TimeZone']) assert.ok(parameters.includes(name), name);
    const keys = greeting.filter(({ letter }) => letter === 'K');
    assert.equal(keys.length, 1);
    wire.send(query('SELECT pg_backend_pid()'));
    const [, row] = await wire.until('D');
    assert.notEqual(row?.body.subarray(6).toString(), String(keys[0]!.body.readInt32BE(0)));
    wire.close();
  });
});

describe('protocol versions', () => {
  async function open(version: number, options: readonly string[] = []) {
    const wire = await openWire(gated.port);
    const packet = startupMessage([...Object.entries(STARTUP), ...options.map((name) => [name, 'x'] as const)]);
    packet.writeInt32BE(version, 4);
    wire.send(packet);
    return wire;
  }
  it('newer than ours are negotiated down, and unknown options named', async () => {
    const wire = await open((3 << 16) | 9999, ['_pq_.unheard_of']);
    const first = await wire.message();
    assert.equal(first?.letter, 'v');
    assert.equal(first.body.readInt32BE(0), (3 << 16) | 2);
    assert.equal(first.body.subarray(8).toString(), '_pq_.unheard_of\0');
    assert.equal((await wire.message())?.letter, 'R');
    wire.close();
  });
  it('3.0 and 3.2 are spoken without negotiation', async () => {
    for (const minor of [0, 2]) {
      const wire = await open((3 << 16) | minor);
      assert.equal((await wire.message())?.letter, 'R');
      wire.close();
    }
  });
});

describe('logging in over TLS', () => {
  const host = `${ENDPOINT}.localhost`;
  const url = (parameters: string, name = host) =>
    `postgresql://${ROLE}@${name}:${gated.port}/neondb?hostaddr=127.0.0.1&${parameters}`;

  it('works for libpq with the host name alone, verified in full, with channel binding', async () => {
    for (const name of [host, `${ENDPOINT}-pooler.localhost`]) {
      const conninfo = url(`sslmode=verify-full&sslrootcert=${gated.authority_file}&channel_binding=require`, name);
      assert.equal(await gated.psql(conninfo, 'SELECT current_user'), ROLE);
    }
    assert.match(gated.ended.at(-1)?.tls ?? '', /^TLSv1\.[23]$/);
  });

  it('works with TLS 1.2, and without channel binding', async () => {
    assert.equal(await gated.psql(url('sslmode=require&ssl_max_protocol_version=TLSv1.2'), 'SELECT 1'), '1');
    assert.equal(await gated.psql(url('sslmode=require&channel_binding=disable'), 'SELECT 1'), '1');
  });

  it('works without a host name in TLS, with the option or the password prefix', async () => {
    const withOption = `postgresql://${ROLE}@127.0.0.1:${gated.port}/neondb?sslmode=require&options=endpoint%3D${ENDPOINT}`;
    assert.equal(await gated.psql(withOption, 'SELECT 1'), '1');
    const bare = url('sslmode=require&sslsni=0');
    assert.equal(await gated.psql(bare, 'SELECT 1', { PGPASSWORD: `endpoint=${ENDPOINT};${PASSWORD}` }), '1');
  });

  it('works for node pg with the authority it was given', async () => {
    const ssl = { ca: gated.authority_pem, servername: host };
    const client = await gated.connect({ options: undefined, ssl });
    assert.equal((await client.query('SELECT 1 AS one')).rows[0].one, 1);
    await client.end();
    const bound = await gated.connect({ options: undefined, ssl, enableChannelBinding: true });
    await bound.end();
  });

  it('fails for a client that expects another certificate', async () => {
    await assert.rejects(
      gated.connect({ options: undefined, ssl: { ca: gated.authority_pem, servername: 'x.example' } }),
    );
  });

  it('fails for a client that trusts another authority, and the log says so', async () => {
    const strangers = await mkdtemp(join(tmpdir(), 'coppice-strangers-'));
    await openCertificateAuthority(strangers);
    const conninfo = url(`sslmode=verify-full&sslrootcert=${join(strangers, 'ca.crt')}`);
    await assert.rejects(gated.psql(conninfo, 'SELECT 1'), /certificate verify failed/);
    await rm(strangers, { recursive: true });
    const told = () => gated.logged.some(({ error_cause }) => /unknown ca/.test(error_cause ?? ''));
    await until(told, { what: 'the alert in the log' });
  });

  it('comes after a request for GSS encryption that is declined', async () => {
    const wire = await openWire(gated.port);
    wire.send(Buffer.from('0000000804d21630', 'hex'));
    assert.equal((await wire.bytes(1)).toString(), 'N');
    wire.send(Buffer.from('0000000804d2162f', 'hex'));
    assert.equal((await wire.bytes(1)).toString(), 'S');
    wire.close();
  });
});

describe('direct TLS', () => {
  it('needs no SSLRequest', async () => {
    const options = { servername: `${ENDPOINT}.localhost`, ca: gated.authority_pem, ALPNProtocols: ['postgresql'] };
    const wire = await openDirectTls(gated.port, options);
    assert.equal(wire.stream.alpnProtocol, 'postgresql');
    wire.send(startupMessage([['user', ROLE]]));
    const offer = await wire.message();
    assert.match(offer!.body.toString(), /SCRAM-SHA-256-PLUS/);
    wire.close();
  });

  it('needs the protocol to be named in the handshake', async () => {
    const wire = await openDirectTls(gated.port, { servername: `${ENDPOINT}.localhost` });
    assert.match((await wire.rest()).toString(), /ALPN protocol `postgresql`/);
    await assert.rejects(openDirectTls(gated.port, { ALPNProtocols: ['h2'] }));
  });
});

describe('an IPv6 client', () => {
  it('is served like any other', async (context) => {
    const gateway = await gated.openGateway({
      listen: [
        { host: '127.0.0.1', port: 0 },
        { host: '::1', port: 0 },
      ],
    });
    const address = gateway.addresses.find(({ family }) => family === 'IPv6');
    if (!address) return context.skip('this machine has no IPv6');
    const client = await gated.connect({ host: '::1', port: address.port });
    await client.end();
  });
});
