import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync } from 'node:child_process';
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import pg from 'pg';
import { choosePort } from '../../src/main/ports.ts';
import { type BackendKey, parseBackendKeyData } from '../../src/wire/backend-messages.ts';
import { query } from '../../src/wire/frontend-messages.ts';
import {
  makeStartedDirectory,
  removeDataDirectory,
  spawnCoppice,
  startCoppice,
  type TestCoppice,
} from '../support/coppice.ts';
import { sendCancel } from '../support/send-cancel.ts';
import { until } from '../support/until.ts';
import { logIn, openWire } from '../support/wire-client.ts';

const CLIENTS = 6;

/** The gateway workers of a Coppice that are there; those that do not serve yet included. */
function workersOf({ process: { pid } }: Pick<TestCoppice, 'process'>): number[] {
  const listed = execFileSync('ps', ['--ppid', String(pid), '-o', 'pid=,args='], { encoding: 'utf8' });
  return listed
    .split('\n')
    .filter((line) => line.includes('gateway-worker'))
    .map((line) => Number.parseInt(line, 10));
}

/** Those that serve, or have served. */
const haveServed = ({ output }: Pick<TestCoppice, 'output'>): number[] =>
  Array.from(output().matchAll(/"subject":"process (\d+)","msg":"a gateway worker serves"/g), ([, pid]) => Number(pid));

/** A client that can be asked whether its connection is still there. */
interface Client {
  readonly pg: pg.Client;
  ended: boolean;
}

async function connect(uri: string): Promise<Client> {
  // One that comes in the moment in which the door closes may be left without an answer until the process has ended.
  const client: Client = {
    pg: new pg.Client({ connectionString: uri, connectionTimeoutMillis: 10_000 }),
    ended: false,
  };
  client.pg.on('error', () => undefined);
  client.pg.once('end', () => {
    client.ended = true;
  });
  await client.pg.connect();
  return client;
}

/** One after the other: the processes take turns. */
async function connectMany(uri: URL): Promise<Client[]> {
  const clients: Client[] = [];
  for (let made = 0; made < CLIENTS; made += 1) clients.push(await connect(uri.href));
  return clients;
}

const countEnded = (clients: readonly Client[]): number => clients.filter(({ ended }) => ended).length;
const endAll = (clients: readonly Client[]) => Promise.allSettled(clients.map((client) => client.pg.end()));
const parallel = <T>(count: number, make: () => Promise<T>) => Promise.all(Array.from({ length: count }, make));

describe('a gateway of several processes', { timeout: 300_000 }, () => {
  let coppice: TestCoppice;
  let endpoint: string;
  let uri: URL;

  before(async () => {
    coppice = await startCoppice({ env: { COPPICE_GATEWAY_WORKERS: '2', COPPICE_LOG_LEVEL: 'info' } });
    const { project, endpoints, connection_uris } = await coppice.must('POST', '/projects', { project: {} });
    endpoint = `/projects/${project.id}/endpoints/${endpoints[0].id}`;
    uri = new URL(connection_uris[0].connection_uri);
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
  });

  it('serves clients of one compute in all of them', async () => {
    assert.equal(workersOf(coppice).length, 2);
    const clients = await connectMany(uri);
    for (const client of clients) {
      const { rows } = await client.pg.query('SELECT 1 AS one');
      assert.deepEqual(rows, [{ one: 1 }]);
    }
    await endAll(clients);
  });

  it('shows the clients of all of them, in the API and in the metrics', async () => {
    const clients = await connectMany(uri);
    const { connections: shown } = await coppice.must('GET', `${endpoint}/connections`);
    assert.equal(shown.sessions_total, CLIENTS);
    assert.equal(shown.sessions.length, CLIENTS);
    const metrics = await (await fetch(`http://127.0.0.1:${coppice.api_port}/metrics`)).text();
    const counted = metrics.split('\n').filter((line) => /^coppice_gateway_clients\{.*host="direct"/.test(line));
    assert.equal(
      counted.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0),
      CLIENTS,
      metrics,
    );
    await endAll(clients);
  });

  it('has what passed all of them metered', async () => {
    const clients = await connectMany(uri);
    for (const client of clients) await client.pg.query("SELECT repeat('x', 1000)");
    await endAll(clients);
    const metered = async (sql: string) => (await coppice.ownDatabase(sql)).rows[0].value as number;
    await until(async () => (await metered('select count(*)::integer as value from coppice.transfer_sources')) === 2, {
      what: 'both of them to tell',
    });
    const sent = () => metered('select coalesce(sum(sent_bytes), 0)::integer as value from coppice.usage_hours');
    await until(async () => (await sent()) >= CLIENTS * 1000, { what: 'everything that was sent to be told' });
  });

  it('cancels a query, whichever of them the request comes to', async () => {
    const login = { user: uri.username, database: uri.pathname.slice(1), options: uri.searchParams.get('options')! };
    const sleepers = await parallel(4, async () => {
      const wire = await openWire(coppice.pg_port);
      await logIn(wire, login, decodeURIComponent(uri.password));
      const greeting = await wire.until('Z');
      wire.send(query('SELECT pg_sleep(600)'));
      const key: BackendKey = parseBackendKeyData(greeting.find(({ letter }) => letter === 'K')!)!;
      return { wire, key };
    });
    // A request that overtakes its query cancels nothing.
    const asleep = "select from pg_stat_activity where query = 'SELECT pg_sleep(600)' and wait_event = 'PgSleep'";
    const watcher = await connect(uri.href);
    await until(async () => (await watcher.pg.query(asleep)).rowCount === 4, { what: 'the queries to run' });
    await watcher.pg.end();
    // Connections go to one and to the other in turn: with the first key all requests find their way, or half of them do.
    for (const { wire, key } of sleepers) {
      await sendCancel({ port: coppice.pg_port, key });
      await assert.rejects(wire.until('Z'), { message: 'canceling statement due to user request' });
      wire.close();
    }
  });

  it('loses with one of them only its own clients, and replaces it', async () => {
    const clients = await connectMany(uri);
    const [victim, survivor] = workersOf(coppice);
    process.kill(victim!, 'SIGKILL');
    await until(() => countEnded(clients) === CLIENTS / 2, { what: 'clients of the killed process to end' });
    await until(() => haveServed(coppice).length === 3, { what: 'another process in its place' });
    assert.ok(workersOf(coppice).includes(survivor!));
    const left = clients.filter(({ ended }) => !ended);
    assert.equal(left.length, CLIENTS / 2);
    for (const { pg: client } of left) assert.equal((await client.query('SELECT 2 AS two')).rows[0].two, 2);
    const fresh = await connectMany(uri);
    await endAll([...left, ...fresh]);
  });

  it('says why another cannot take its place, and tries again', async () => {
    const served = haveServed(coppice).length;
    const id_file = join(coppice.data_directory, 'directory-id');
    await rename(id_file, `${id_file}.away`);
    try {
      process.kill(workersOf(coppice)[0]!, 'SIGKILL');
      await until(() => /no engine was ever started on.*"a gateway worker could not start"/.test(coppice.output()), {
        what: 'the reason to be told',
      });
    } finally {
      await rename(`${id_file}.away`, id_file);
    }
    await until(() => haveServed(coppice).length === served + 1, { what: 'another process in its place' });
    await endAll(await connectMany(uri));
  });

  it('lets transactions end before one that is told to stop does, while another takes its place', async () => {
    const clients = await connectMany(uri);
    for (const { pg: client } of clients) await client.query('BEGIN');
    const [leaving] = workersOf(coppice);
    process.kill(leaving!, 'SIGTERM');
    await until(() => haveServed(coppice).length === 5, { what: 'another process in its place' });
    await Promise.all(clients.map(({ pg: client }) => client.query('SELECT 3')));
    await Promise.all(clients.map(({ pg: client }) => client.query('COMMIT')));
    await until(() => !workersOf(coppice).includes(leaving!), { what: 'the process to end' });
    // They hear of it after it has gone.
    await until(() => countEnded(clients) >= CLIENTS / 2, { what: 'its clients to be ended' });
    assert.equal(countEnded(clients), CLIENTS / 2);
    await endAll(clients);
  });

  it('ends with Coppice, after the transactions that are open', async () => {
    const idle = await connectMany(uri);
    const { pg: client } = await connect(uri.href);
    await client.query('CREATE TABLE IF NOT EXISTS kept (note text)');
    await client.query('BEGIN');
    await client.query("INSERT INTO kept VALUES ('at the end')");
    const workers = workersOf(coppice);
    const stopped = coppice.stop();
    await until(async () => (await connect(uri.href).catch(() => undefined)) === undefined, {
      what: 'the door to be closed',
    });
    await until(() => countEnded(idle) === CLIENTS, { what: 'idle clients to be ended' });
    await client.query('COMMIT');
    await stopped;
    assert.equal(coppice.process.exitCode, 0);
    for (const pid of workers) assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
    coppice = await startCoppice({ data_directory: coppice.data_directory, env: { COPPICE_PG_PORT: uri.port } });
    const again = await connect(uri.href);
    assert.deepEqual((await again.pg.query('SELECT note FROM kept')).rows, [{ note: 'at the end' }]);
    await again.pg.end();
  });
});

describe('a gateway in a process of its own', { timeout: 300_000 }, () => {
  let data_directory: string;
  let pg_port: number;
  /** Of the gateway. */
  let http_port: number;
  let coppice: TestCoppice;
  let gateway: { child: ChildProcess; output: () => string };
  let uri: string;
  let endpoint: { id: string; project_id: string };

  const startEngine = () => {
    const env = { COPPICE_ROLES: 'api,engine', COPPICE_PG_PORT: String(pg_port), COPPICE_KEEP_COMPUTES: 'true' };
    return startCoppice({ data_directory, env });
  };
  const startGateway = async () => {
    const env = { COPPICE_ROLES: 'gateway', COPPICE_PG_PORT: String(pg_port), COPPICE_API_PORT: String(http_port) };
    const started = spawnCoppice({ data_directory, env });
    await until(() => started.output().includes('Coppice is ready') || started.child.exitCode !== null, {
      what: 'the gateway to be ready',
      timeout_ms: 60_000,
    });
    return started;
  };

  before(async () => {
    data_directory = await makeStartedDirectory();
    pg_port = await choosePort(['127.0.0.1', '::1'], 0, '');
    http_port = await choosePort(['127.0.0.1', '::1'], 0, '');
    coppice = await startEngine();
    gateway = await startGateway();
    const { connection_uris, endpoints } = await coppice.must('POST', '/projects', { project: {} });
    uri = connection_uris[0].connection_uri;
    endpoint = endpoints[0];
  });
  after(async () => {
    gateway?.child.kill('SIGKILL');
    await coppice?.stop();
    // The one that keeps its computes leaves them to the next.
    const last = await startCoppice({ data_directory });
    await last.stop();
    await removeDataDirectory(data_directory);
  });

  it('lets clients in, and wakes what sleeps through the engine', async () => {
    const client = await connect(uri);
    assert.equal((await client.pg.query('SELECT 1 AS one')).rows[0].one, 1);
    await client.pg.end();
  });

  it('shows what it measures on its own port; the API does not know who is connected', async () => {
    const client = await connect(uri);
    const metrics = await (await fetch(`http://127.0.0.1:${http_port}/metrics`)).text();
    assert.match(
      metrics,
      new RegExp(`^coppice_gateway_received_bytes_total\\{endpoint_id="${endpoint.id}"\\} \\d+$`, 'm'),
    );
    assert.equal((await fetch(`http://127.0.0.1:${http_port}/healthz`)).status, 200);
    const path = `/projects/${endpoint.project_id}/endpoints/${endpoint.id}/connections`;
    assert.equal((await coppice.call('GET', path)).status, 501);
    await client.pg.end();
  });

  it('keeps its clients while the engine is killed and started again', async () => {
    const client = await connect(uri);
    await coppice.kill();
    assert.equal((await client.pg.query('SELECT 2 AS two')).rows[0].two, 2);
    coppice = await startEngine();
    assert.equal((await client.pg.query('SELECT 3 AS three')).rows[0].three, 3);
    const other = await connect(uri);
    await endAll([client, other]);
  });

  it('can be killed and started again without harm to the compute', async () => {
    const gone = await connect(uri);
    gateway.child.kill('SIGKILL');
    await until(() => gone.ended, { what: 'its clients to hear of it' });
    gateway = await startGateway();
    const client = await connect(uri);
    assert.equal((await client.pg.query('SELECT 4 AS four')).rows[0].four, 4);
    await client.pg.end();
  });

  it('says what is missing where no engine was ever started', async () => {
    const empty = spawnCoppice({ data_directory: `${data_directory}-empty`, env: { COPPICE_ROLES: 'gateway' } });
    await until(() => empty.child.exitCode !== null, { what: 'the process to end' });
    assert.equal(empty.child.exitCode, 1);
    assert.match(
      empty.output(),
      /no engine was ever started on the data directory .*: start one process with the role engine first/,
    );
  });
});
