import assert from 'node:assert/strict';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { readActivity } from '../../src/postgres/activity.ts';
import { openSession } from '../../src/postgres/session.ts';
import { createCall } from '../../src/store/calls.ts';
import { type OpenStore, openStore } from '../../src/store/connection.ts';
import { removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { connect, query } from '../support/customer.ts';
import { createLiveProject, type LiveProject } from '../support/live-project.ts';
import { until } from '../support/until.ts';

describe('a compute that nobody uses', { timeout: 180_000 }, () => {
  let coppice: TestCoppice;
  let project: LiveProject;

  before(async () => {
    coppice = await startCoppice();
    project = await createLiveProject(coppice, { default_endpoint_settings: { suspend_timeout_seconds: -1 } });
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
  });

  const setTimeoutSeconds = (suspend_timeout_seconds: number) =>
    coppice.must('PATCH', project.endpoint_path, { endpoint: { suspend_timeout_seconds } });
  const suspends = async () => {
    const operations = await project.operations();
    return operations.filter(({ action }) => action === 'suspend_compute').length;
  };
  /** How often the platform looks at a compute with a timeout of a second: at least this often within the time. */
  const someLooks = () => delay(2_000);

  it('sleeps after its timeout, an open connection notwithstanding, which is told so', async () => {
    await setTimeoutSeconds(-1);
    await using idle = await connect(project.uri);
    await idle.query('select 1');
    const before = await suspends();
    await someLooks();
    assert.equal(await project.state(), 'active', 'a timeout of -1 is never over');

    const { operations } = await coppice.must('PATCH', project.endpoint_path, {
      endpoint: { suspend_timeout_seconds: 1 },
    });
    assert.deepEqual(operations, [], 'a timeout takes effect without the server');
    await project.untilState('idle');
    assert.equal(await idle.broken, '57P01');
    await coppice.settled(project.id);
    assert.equal(await suspends(), before + 1);
  });

  it('stays awake while a statement runs', async () => {
    await setTimeoutSeconds(1);
    await using busy = await connect(project.uri);
    const { rows } = await busy.query('select pg_backend_pid() as pid');
    const cancelled = assert.rejects(busy.query('select pg_sleep(600)'), { code: '57014' });
    await someLooks();
    assert.equal(await project.state(), 'active');
    await query(project.uri, 'select pg_cancel_backend($1)', [rows[0].pid]);
    await cancelled;
    await project.untilState('idle');
  });

  it('stays awake while a transaction is open', async () => {
    await using open = await connect(project.uri);
    await open.query('begin');
    await open.query('select 1');
    await someLooks();
    assert.equal(await project.state(), 'active');
    await open.query('commit');
    await project.untilState('idle');
  });

  it('stays awake while short connections come and go within its timeout', async () => {
    const timeout_ms = 3_000;
    await setTimeoutSeconds(timeout_ms / 1000);
    await query(project.uri, 'select 1');
    let latest = Date.now();
    let longest_pause = 0;
    const seen = () => {
      longest_pause = Math.max(longest_pause, Date.now() - latest);
      latest = Date.now();
    };
    const before = await suspends();
    const end = Date.now() + 2 * timeout_ms;
    while (Date.now() < end) {
      await using short = await connect(project.uri);
      await short.end();
      seen();
      await delay(400);
    }
    const after = await suspends();
    seen();
    // A machine that let nobody connect for the whole timeout has made the compute idle; then a suspend is right.
    if (longest_pause < timeout_ms - 100) assert.equal(after, before, 'no suspend in between');
    await setTimeoutSeconds(1);
    await project.untilState('idle');
  });

  it('is never stopped under somebody who uses it, however close the moment is', async () => {
    await query(project.uri, 'create table used (at timestamptz default now())');
    let broken = 0;
    // Pauses around the timeout, so that statements begin while a suspend is being decided.
    for (let round = 0; round < 6; round++) {
      await using client = await connect(project.uri);
      await client.query('select 1');
      await delay(950 + round * 60);
      await client.query('insert into used default values').catch((error: Error & { code?: string }) => {
        // A connection that was idle for its timeout may have been ended before the statement was sent.
        assert.match(String(error.code ?? error.message), /57P01|ECONNRESET|EPIPE|terminated|not queryable/);
        broken += 1;
      });
    }
    const [{ count }] = await query(project.uri, 'select count(*)::int as count from used');
    assert.equal(count, 6 - broken, 'what was refused was not done, and what was done stayed');
  });

  describe('and whose suspend is decided', () => {
    let store: OpenStore;
    before(async () => {
      await setTimeoutSeconds(-1);
      const host = join(coppice.data_directory, 'run/store');
      store = openStore({
        connection: { host, user: 'cloud_admin', database: 'coppice' },
        application_name: 'test',
        connections_max: 1,
        durable: true,
        onError: () => undefined,
      });
    });
    after(() => store.close());

    /** Reads what a chore reads when it finds the compute idle. */
    const lookAt = async () => {
      const socket = join(coppice.data_directory, 'run', project.endpoint_id, '.s.PGSQL.5432');
      await using session = await openSession(async () => createConnection(socket), { database: 'postgres' });
      const { counters } = await readActivity(session);
      return { only_if_idle: true, counters, decided_at_ms: Date.now() };
    };
    /** Carries out what was decided by a look, and returns how that ended. */
    const suspendFor = async (decision: Awaited<ReturnType<typeof lookAt>>) => {
      const { rows } = await store.pool.query<{ timeline_id: string }>(
        'select timeline_id from branches where id = $1',
        [project.branch_id],
      );
      const { endpoint_id, branch_id } = project;
      const target = { endpoint_id, branch_id, timeline_id: rows[0]!.timeline_id };
      const [operation] = await store.store
        .transaction()
        .execute((trx) => createCall(trx, project.id, [{ action: 'suspend_compute', ...target, arguments: decision }]));
      await coppice.settled(project.id);
      return (await project.operation(operation!.id)).status;
    };

    it('sleeps when nothing came between', async () => {
      await query(project.uri, 'select 1');
      // Sessions count what they did when they end, which takes a moment.
      await until(async () => (await suspendFor(await lookAt())) === 'finished', { what: 'the suspend' });
      assert.equal(await project.state(), 'idle');
    });

    it('stays awake when somebody came and left', async () => {
      await query(project.uri, 'select 1');
      const decision = await lookAt();
      await query(project.uri, 'select 1');
      assert.equal(await suspendFor(decision), 'skipped');
      assert.equal(await project.state(), 'active');
    });

    it('stays awake when somebody who was there did something, however short', async () => {
      await using client = await connect(project.uri);
      await client.query('select 1');
      const decision = await lookAt();
      await client.query('select 1');
      assert.equal(await suspendFor(decision), 'skipped');
      assert.equal((await client.query('select 1 as one')).rows[0].one, 1);
    });

    it('stays awake when something runs', async () => {
      await using client = await connect(project.uri);
      await client.query('select 1');
      const decision = await lookAt();
      await client.query('begin');
      assert.equal(await suspendFor(decision), 'skipped');
      await client.query('commit');
    });
  });
});
