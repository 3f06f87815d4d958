import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { openStore } from '../../src/store/connection.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { type SlowSocket, startSlowSocket } from '../support/slow-socket.ts';
import { type StoreServer, startStoreServer } from '../support/store.ts';
import { until } from '../support/until.ts';

/** Two connections for many callers. */
const CONNECTIONS_MAX = 2;
const SLOW_MS = 2_000;

describe('the API, when its own database', { timeout: 180_000 }, () => {
  let server: StoreServer;
  let socket: SlowSocket;
  let api: TestApi;
  let project_id: string;
  before(async () => {
    server = await startStoreServer();
    const { connection } = await server.createStore();
    socket = await startSlowSocket(String(connection.host));
    const opened = openStore({
      connection: { ...connection, host: socket.directory },
      application_name: 'coppice-test',
      connections_max: CONNECTIONS_MAX,
      durable: true,
      onError: () => undefined,
    });
    api = await startTestApi({
      on: { stop: () => opened.close(), createStore: async () => ({ ...opened, connection }) },
    });
    project_id = (await api.call('POST', '/projects', { body: { project: {} } })).body.project.id;
  });
  after(async () => {
    socket?.delay(0);
    await api?.close();
    await socket?.stop();
    await server?.stop();
  });

  const read = () => api.call('GET', `/projects/${project_id}`);
  const rename = (name: string) => api.call('PATCH', `/projects/${project_id}`, { body: { project: { name } } });
  const setReadOnly = async (state: 'on' | 'off') => {
    const client = await api.store.pool.connect();
    try {
      await client.query('set default_transaction_read_only = off');
      const { rows } = await client.query('select current_database() as name');
      await client.query(`alter database ${rows[0].name} set default_transaction_read_only = ${state}`);
    } finally {
      client.release(true);
    }
    await server.endSessions();
  };
  const nameNow = async () => (await read()).body.project.name;
  const assertAway = ({ status, headers, body }: Awaited<ReturnType<typeof read>>) => {
    assert.deepEqual([status, headers['retry-after']], [503, '2']);
    assert.equal(body.message, 'the service is not ready, please try again');
  };

  it('is restarted, asks callers to come again, and answers when it is back', async () => {
    await rename('before');
    const down = await server.restart(async () => {
      const [one, other] = await Promise.all([read(), rename('meanwhile')]);
      return [one, other];
    });
    for (const answer of down) assertAway(answer);
    await until(async () => (await read()).status === 200, { what: 'the API to answer again' });
    assert.equal(await nameNow(), 'before');
    assert.equal((await rename('after')).status, 200);
  });

  it('takes no changes, answers reads, and asks those who change something to come again', async () => {
    await rename('before');
    await setReadOnly('on');
    try {
      await until(async () => (await read()).status === 200, { what: 'the API to answer again' });
      assertAway(await rename('meanwhile'));
      assertAway(await api.call('POST', '/api_keys', { body: { key_name: 'meanwhile' } }));
      assert.equal(await nameNow(), 'before');
    } finally {
      await setReadOnly('off');
    }
    await until(async () => (await rename('after')).status === 200, { what: 'changes to be taken again' });
    assert.equal(await nameNow(), 'after');
  });

  it('needs two seconds for a statement, answers as many as it can and none wrongly, and is quick again afterwards', async () => {
    socket.delay(SLOW_MS);
    const answers = await Promise.all([
      ...Array.from({ length: 40 }, read),
      ...Array.from({ length: 5 }, () => api.call('POST', '/api_keys', { body: { key_name: 'slowly' } })),
    ]);
    socket.delay(0);
    const statuses = answers.map(({ status }) => status);
    assert.deepEqual(
      [...new Set(statuses)].filter((status) => status !== 200 && status !== 503),
      [],
    );
    for (const answer of answers.filter(({ status }) => status === 503)) assertAway(answer);
    assert.ok(statuses.slice(0, 40).includes(200), 'nobody was answered');
    await until(async () => (await rename('after')).status === 200, { what: 'the API to answer again' });
    assert.equal(await nameNow(), 'after');
  });
});
