import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { computeLayout } from '../../src/drivers/compute/process/layout.ts';
import { type Customer, type CustomerCompute, openCustomerComputes } from '../support/customer-computes.ts';
import { MAJORS } from '../support/postgres.ts';

/** What a customer can reach from inside a compute: other computes, our own database, the platform's files. */

const run = promisify(execFile);
const computes = await openCustomerComputes();
after(() => computes[Symbol.asyncDispose]());
const isRoot = process.getuid?.() === 0;

/** Stands for our own database: a socket in a directory of ours. */
let storeDirectory: string;
let visitors = 0;
const store = createServer((socket) => {
  visitors += 1;
  socket.destroy();
});
before(async () => {
  storeDirectory = join(computes.directory, 'store');
  await mkdir(storeDirectory, { mode: 0o700 });
  await new Promise<void>((resolve) => store.listen(join(storeDirectory, '.s.PGSQL.5432'), resolve));
});
after(() => store.close());

const refusedAt = async (customer: Customer, sql: string): Promise<string> =>
  customer.query(sql).then(
    () => 'it was done',
    (error: Error & { detail?: string }) => `${error.message} ${error.detail ?? ''}`,
  );

interface Pair {
  readonly own: CustomerCompute;
  readonly other: CustomerCompute;
}

for (const major of MAJORS) {
  describe(`from a compute on ${major}`, () => {
    const started: Promise<Pair> = computes
      .start(major)
      .then(async (own) => ({ own, other: await computes.start(major) }));

    const connectionString = ({ socketDirectory, password }: CustomerCompute): string =>
      `host=${socketDirectory} user=neondb_owner password=${password} dbname=neondb`;

    test('dblink reaches its own server and nobody else', async () => {
      const { own, other } = await started;
      await using customer = await own.connect();
      if (major === 18) {
        assert.match(await refusedAt(customer, 'CREATE EXTENSION dblink'), /is not available/);
        return;
      }
      await customer.query('CREATE EXTENSION dblink');
      const connect = (text: string) => refusedAt(customer, `SELECT dblink_connect('x', '${text}')`);
      assert.equal(await connect(connectionString(own)), 'it was done');
      await customer.query("SELECT dblink_disconnect('x')");
      if (isRoot) assert.match(await connect(connectionString(other)), /Permission denied/);
      assert.match(await connect(`host=${own.socketDirectory} user=cloud_admin dbname=postgres`), /password/);
      assert.match(
        await connect(`host=${own.socketDirectory} user=cloud_admin password=x dbname=postgres`),
        isRoot ? /Peer authentication failed/ : /password/,
      );
      if (isRoot) assert.match(await connect(`host=${storeDirectory} user=x password=x`), /Permission denied/);
      assert.match(await connect(`${connectionString(own)} sslkeylogfile=/tmp/evil`), /password or GSSAPI|invalid/);
      assert.match(await refusedAt(customer, "SELECT dblink_connect_u('x', 'host=/tmp')"), /permission denied/);
    });

    test('postgres_fdw reaches its own server and nobody else, and writes no file of keys', async () => {
      const { own, other } = await started;
      await using customer = await own.connect();
      await customer.query('CREATE EXTENSION postgres_fdw');
      const look = async (compute: { socketDirectory: string; password: string }): Promise<string> => {
        await customer.query('DROP SERVER IF EXISTS there CASCADE');
        await customer.query(
          `CREATE SERVER there FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '${compute.socketDirectory}', dbname 'neondb')`,
        );
        await customer.query(
          `CREATE USER MAPPING FOR CURRENT_USER SERVER there OPTIONS (user 'neondb_owner', password '${compute.password}')`,
        );
        await customer.query(
          `CREATE FOREIGN TABLE seen (datname name) SERVER there OPTIONS (schema_name 'pg_catalog', table_name 'pg_database')`,
        );
        return refusedAt(customer, 'SELECT * FROM seen');
      };
      assert.equal(await look(own), 'it was done');
      if (isRoot) {
        assert.match(await look(other), /Permission denied/);
        assert.match(await look({ socketDirectory: storeDirectory, password: 'x' }), /Permission denied/);
      }
      for (const sql of [
        "ALTER SERVER there OPTIONS (ADD sslkeylogfile '/tmp/evil')",
        "ALTER USER MAPPING FOR CURRENT_USER SERVER there OPTIONS (ADD sslkeylogfile '/tmp/evil')",
      ]) {
        assert.match(await refusedAt(customer, sql), /invalid option/);
      }
      for (const option of ["ADD password_required 'false'", "ADD sslkey '/etc/shadow'"]) {
        assert.match(
          await refusedAt(customer, `ALTER USER MAPPING FOR CURRENT_USER SERVER there OPTIONS (${option})`),
          /superuser/,
        );
      }
    });

    test('a subscription reaches nobody else, and on 18 there is none', async () => {
      const { own, other } = await started;
      await using customer = await own.connect();
      const subscribe = (to: string, options = 'create_slot = false, enabled = false') =>
        refusedAt(customer, `CREATE SUBSCRIPTION s CONNECTION '${to}' PUBLICATION p WITH (${options})`);
      if (major === 18) {
        assert.match(await subscribe(connectionString(own)), /permission denied/);
        assert.match(await subscribe(`${connectionString(own)} sslkeylogfile=/tmp/evil`), /permission denied/);
        return;
      }
      if (isRoot) assert.match(await subscribe(connectionString(other)), /Permission denied/);
      if (isRoot) assert.match(await subscribe(`host=${storeDirectory} user=x password=x`), /Permission denied/);
      assert.match(await subscribe(`host=${own.socketDirectory} user=cloud_admin dbname=neondb`), /password/);
      assert.match(await subscribe(connectionString(own), 'connect = false, password_required = false'), /superuser/);
    });

    test('its user reads its own configuration and writes none, and finds the files of others closed', async (context) => {
      if (!isRoot) return context.skip('without root everything is one trust domain');
      const { own, other } = await started;
      const layoutOf = ({ spec }: CustomerCompute) =>
        computeLayout(
          { stateDir: join(computes.directory, 'state'), runDir: join(computes.directory, 'run') },
          spec.id,
        );
      const as = (command: string, path: string): Promise<string> =>
        run('sh', ['-c', command, 'sh', path], { ...own.spec.owner, env: { PATH: '/usr/bin:/bin' } }).then(
          () => 'done',
          (error: { stderr: string }) => error.stderr,
        );
      const mine = layoutOf(own).directory;
      const theirs = layoutOf(other);
      assert.equal(await as('cat "$1"', join(mine, 'postgresql.conf')), 'done');
      for (const name of ['postgresql.conf', 'pg_hba.conf', 'pg_ident.conf', 'postgres.log']) {
        assert.match(await as('echo x >> "$1"', join(mine, name)), /denied/, name);
        assert.match(await as('rm -f "$1"', join(mine, name)), /denied/, name);
      }
      assert.match(await as('touch "$1"', join(mine, 'new')), /denied/);
      for (const path of [theirs.directory, theirs.socket_directory, other.spec.data_directory, storeDirectory]) {
        assert.match(await as('ls "$1"', path), /denied/, path);
      }
      assert.match(await as('cat "$1"', join(other.spec.data_directory, 'postgresql.auto.conf')), /denied/);
      assert.match(await as('kill -INT "$1"', String(postmasterOf(other))), /not permitted/);
      assert.match(await as('cat "$1" > /dev/null', `/proc/${postmasterOf(other)}/environ`), /denied/);
      assert.match(await as('touch "$1"', join(own.spec.distribution.root, 'bin/postgres')), /denied/);
    });

    test('nothing listens for the network, and the environment holds nothing of ours', async () => {
      const { own } = await started;
      await using session = await own.open('postgres');
      const { rows } = await session.query("SELECT current_setting('listen_addresses') AS addresses");
      assert.deepEqual(rows, [{ addresses: '' }]);
      const environment = readFileSync(`/proc/${postmasterOf(own)}/environ`, 'utf8')
        .split('\0')
        .filter(Boolean);
      assert.deepEqual(
        environment.filter((entry) => !/^(PG_GRANDPARENT_PID|LC_|POSTGRES_|PGLOCALEDIR|PGSYSCONFDIR)/.test(entry)),
        [],
      );
    });
  });
}

test('our own database was never reached, and no file of keys was written', () => {
  assert.equal(visitors, 0);
  assert.ok(!existsSync('/tmp/evil'));
});

/** As its own file says. */
function postmasterOf({ spec }: CustomerCompute): number {
  return Number(readFileSync(join(spec.data_directory, 'postmaster.pid'), 'utf8').split('\n')[0]);
}
