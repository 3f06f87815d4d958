import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, it } from 'node:test';
import pino from 'pino';
import { tellTransfers } from '../../src/main/tell-transfers.ts';
import { forgetUsage, meterRun, meterTransfers, meterWritten } from '../../src/store/metering.ts';
import { observeEndpointRunning, observeEndpointStopped } from '../../src/store/observations.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createReadyBranch, createSleepingProject, type TestProject } from '../support/project.ts';

/** The arithmetic of what is used, in our own database, where it is done. */
describe('what is metered', { timeout: 120_000 }, () => {
  let api: TestApi;
  let project: TestProject;

  before(async () => {
    api = await startTestApi();
  });
  after(() => api?.close());
  beforeEach(async () => {
    project = await createSleepingProject(api);
  });

  const rows = async (sql: string, values: unknown[] = []) => (await api.store.pool.query(sql, values)).rows;
  const begin = (at: string, cu = 1) =>
    rows('insert into coppice.compute_runs values ($1, $2, $3, $4, $5)', [
      ...[project.endpoint_id, project.branch_id, project.id],
      ...[cu, at],
    ]);
  const meter = (until: string, most = '1 day') =>
    rows('select coppice.meter_run($1, $2::interval, $3)', [project.endpoint_id, most, until]);
  /** Seconds, hour by hour. */
  const hours = async () => {
    const found = await rows(
      'select hour, active_us, compute_us from coppice.usage_hours where branch_id = $1 order by hour',
      [project.branch_id],
    );
    return found.map(({ hour, active_us, compute_us }) => [
      hour.toISOString().slice(0, 13),
      active_us / 1e6,
      compute_us / 1e6,
    ]);
  };
  const totals = async () => {
    const [found] = await rows('select * from coppice.project_usage where project_id = $1', [project.id]);
    return found && [found.period_start.toISOString().slice(0, 10), found.active_us / 1e6, found.compute_us / 1e6];
  };

  describe('of a run', () => {
    it('is its time, and its time times its size, in the hours that it ran through', async () => {
      await begin('2026-11-20T22:59:30Z', 0.25);
      await meter('2026-11-21T01:00:10Z');
      assert.deepEqual(await hours(), [
        ['2026-11-20T22', 30, 7.5],
        ['2026-11-20T23', 3600, 900],
        ['2026-11-21T00', 3600, 900],
        ['2026-11-21T01', 10, 2.5],
      ]);
      assert.deepEqual(await totals(), ['2026-11-01', 7240, 1810]);
    });

    it('over the end of a month is in both months, and the total in the new one', async () => {
      await begin('2028-02-29T23:59:00Z');
      await meter('2028-03-01T00:00:20Z');
      assert.deepEqual(await hours(), [
        ['2028-02-29T23', 60, 60],
        ['2028-03-01T00', 20, 20],
      ]);
      assert.deepEqual(await totals(), ['2028-03-01', 20, 20]);
    });

    it('is the same in however many steps it is added', async () => {
      await begin('2026-11-20T10:00:00Z');
      for (let second = 7; second <= 70; second += 7) {
        await meter(new Date(Date.UTC(2026, 10, 20, 10, 0, second)).toISOString());
      }
      assert.deepEqual(await hours(), [['2026-11-20T10', 70, 70]]);
    });

    it('has no hour that a change of clocks makes longer or shorter', async () => {
      // Where most of Europe skips an hour, and where it has one twice.
      for (const day of ['2026-03-29', '2026-10-25']) {
        await begin(`${day}T00:30:00Z`);
        await meter(`${day}T02:30:00Z`);
        await rows('delete from coppice.compute_runs');
      }
      const found = await hours();
      assert.deepEqual(
        found.map(([, seconds]) => seconds),
        [1800, 3600, 1800, 1800, 3600, 1800],
      );
    });

    it('is not added twice by two who add at once', async () => {
      const began = new Date(Date.now() - 30_000).toISOString();
      await begin(began);
      await Promise.all(Array.from({ length: 8 }, () => meterRun(api.store.store, project.endpoint_id, 3_600_000)));
      const [{ passed_us }] = await rows(
        'select extract(epoch from metered_until - $2) * 1000000 as passed_us from coppice.compute_runs where endpoint_id = $1',
        [project.endpoint_id, began],
      );
      const [{ us }] = await rows('select sum(active_us) as us from coppice.usage_hours where branch_id = $1', [
        project.branch_id,
      ]);
      assert.ok(Number(us) >= 30_000_000, String(us));
      assert.equal(Number(us), Number(passed_us));
    });

    it('leaves out a time that nobody knows it ran through', async () => {
      await begin('2026-11-20T10:00:00Z');
      await meter('2026-11-20T10:00:50Z', '1 minute');
      await meter('2026-11-20T18:00:00Z', '1 minute');
      await meter('2026-11-20T18:00:10Z', '1 minute');
      assert.deepEqual(await hours(), [
        ['2026-11-20T10', 50, 50],
        ['2026-11-20T18', 10, 10],
      ]);
    });

    it('is never less than it was, whatever becomes of the clock', async () => {
      await begin('2026-11-20T10:00:00Z');
      await meter('2026-11-20T10:00:50Z');
      await meter('2026-11-20T09:00:00Z');
      await meter('2026-11-20T10:00:51Z');
      assert.deepEqual(await hours(), [['2026-11-20T10', 51, 51]]);
    });

    it('is added again as a whole by nobody whose transaction was lost', async () => {
      await begin('2026-11-20T10:00:00Z');
      const client = await api.store.pool.connect();
      await client.query('begin');
      await client.query("select coppice.meter_run($1, '1 day', '2026-11-20T10:00:30Z')", [project.endpoint_id]);
      await client.query('rollback');
      client.release();
      assert.deepEqual(await hours(), []);
      await meter('2026-11-20T10:00:40Z');
      assert.deepEqual(await hours(), [['2026-11-20T10', 40, 40]]);
    });

    it('begins and ends with what is observed of the endpoint', async () => {
      const { store } = api.store;
      const seen = { started_at: new Date(), spec_hash: null, current_cu: 2 };
      const runs = () => rows('select cu from coppice.compute_runs where endpoint_id = $1', [project.endpoint_id]);
      await observeEndpointRunning(store, project.endpoint_id, seen);
      assert.deepEqual(await runs(), [{ cu: 2 }]);
      await rows("update coppice.compute_runs set metered_until = metered_until - interval '10 seconds'");
      await observeEndpointStopped(store, project.endpoint_id);
      assert.deepEqual(await runs(), []);
      const [used] = await rows('select * from coppice.branch_usage where branch_id = $1', [project.branch_id]);
      assert.ok(used.active_us >= 10_000_000 && used.active_us < 40_000_000, String(used.active_us));
      assert.ok(Math.abs(used.compute_us - 2 * used.active_us) <= 2);
      await observeEndpointStopped(store, project.endpoint_id);
      const [again] = await rows('select * from coppice.branch_usage where branch_id = $1', [project.branch_id]);
      assert.deepEqual(again, used);
    });
  });

  it('of the log is what was written since it was last told, once, and never less', async () => {
    const { store } = api.store;
    await observeEndpointRunning(store, project.endpoint_id, {
      started_at: new Date(),
      spec_hash: null,
      current_cu: 1,
    });
    await rows(
      "update coppice.timelines set birth_lsn = '0/1000000' where id = (select timeline_id from coppice.branches where id = $1)",
      [project.branch_id],
    );
    await rows(
      'update coppice.endpoints set serves_timeline_id = (select timeline_id from coppice.branches where id = branch_id) where id = $1',
      [project.endpoint_id],
    );
    const written = async () =>
      (await rows('select written_bytes from coppice.branch_usage where branch_id = $1', [project.branch_id]))[0]
        ?.written_bytes;
    await meterWritten(store, project.endpoint_id, '0/1000100');
    assert.equal(await written(), 0x100);
    await Promise.all(Array.from({ length: 4 }, () => meterWritten(store, project.endpoint_id, '0/1000300')));
    assert.equal(await written(), 0x300);
    await meterWritten(store, project.endpoint_id, '0/1000200');
    await meterWritten(store, project.endpoint_id, '1/0');
    assert.equal(await written(), 2 ** 32 - 0x1000000);
  });

  it('of clients is added once, however often it is told, for whatever branch has the endpoint', async () => {
    const source = randomUUID();
    const told = [
      { endpoint_id: project.endpoint_id, received_bytes: 10, sent_bytes: 100, private_bytes: 40 },
      { endpoint_id: 'ep-unknown-one-12345678', received_bytes: 1, sent_bytes: 1, private_bytes: 1 },
    ];
    for (const batch of [1, 1, 2, 1]) await meterTransfers(api.store.store, source, batch, told);
    await meterTransfers(api.store.store, randomUUID(), 1, told);
    const [used] = await rows('select * from coppice.usage_hours where branch_id = $1', [project.branch_id]);
    assert.deepEqual([used.received_bytes, used.sent_bytes, used.private_bytes], [30, 300, 120]);
  });

  it('of clients is told in pieces by a process that stops, all of it', async () => {
    const { endpoint_id } = project;
    const others = Array.from({ length: 1200 }, (_, at) => `ep-unknown-one-${at}`);
    const left = [...others, endpoint_id].map((id) => ({
      ...{ endpoint_id: id, received_bytes: 1, sent_bytes: 2, private_bytes: 0 },
    }));
    const source = { transfersPending: () => left.length > 0, takeTransfers: () => left.splice(0) };
    const teller = tellTransfers(api.store.store, () => source, pino({ level: 'silent' }));
    teller.begin();
    await teller.stop();
    const [used] = await rows('select * from coppice.usage_hours where branch_id = $1', [project.branch_id]);
    assert.deepEqual([used.received_bytes, used.sent_bytes, used.private_bytes], [1, 2, 0]);
    assert.equal(left.length, 0);
  });

  describe('of storage', () => {
    const set = (what: string, bytes: number, at: string) =>
      rows('select coppice.set_storage($1, $2, $3, $4, $5)', [project.branch_id, project.id, what, bytes, at]);
    const stored = async (what: string) => {
      const found = await rows(
        'select hour, byte_seconds::float8 as byte_seconds, bytes_end from coppice.storage_hours where branch_id = $1 and kind = $2 order by hour',
        [project.branch_id, what],
      );
      return found.map(({ hour, byte_seconds, bytes_end }) => [
        hour.toISOString().slice(0, 13),
        byte_seconds,
        bytes_end,
      ]);
    };

    it('has a row for each hour in which it changed, of the whole hour', async () => {
      await set('root', 1000, '2026-11-20T10:30:00Z');
      await set('root', 3000, '2026-11-20T10:45:00Z');
      await set('root', 3000, '2026-11-20T11:10:00Z');
      await set('root', 0, '2026-11-20T15:15:00Z');
      assert.deepEqual(await stored('root'), [
        ['2026-11-20T10', 1000 * 900 + 3000 * 900, 3000],
        ['2026-11-20T15', 3000 * 900, 0],
      ]);
    });

    it('is added up for its project as it changes', async () => {
      await set('root', 1000, '2026-11-20T10:00:00Z');
      await set('history', 500, '2026-11-20T11:00:00Z');
      await set('logical', 77, '2026-11-20T11:00:00Z');
      await set('root', 0, '2026-11-20T12:00:00Z');
      const [total] = await rows('select * from coppice.project_usage where project_id = $1', [project.id]);
      assert.equal(total.storage_bytes, 500);
      assert.equal(Number(total.storage_byte_seconds), 1000 * 3600 + 1500 * 3600);
      // A month later what is there is there still, and what it came to begins anew.
      await set('root', 100, '2026-12-01T00:10:00Z');
      const [next] = await rows('select * from coppice.project_usage where project_id = $1', [project.id]);
      assert.deepEqual([next.storage_bytes, Number(next.storage_byte_seconds)], [600, 500 * 600]);
    });

    it('follows what is measured: a root has its data, a child what it does not share, and both their history', async () => {
      const child = (await createReadyBranch(api, project, { name: 'child' })).branch.id;
      const measure = (branch: string, sizes: string) =>
        rows(
          `update coppice.timelines set ${sizes} where id = (select timeline_id from coppice.branches where id = $1)`,
          [branch],
        );
      const held = async (branch: string) => {
        const found = await rows(
          'select distinct on (kind) kind, bytes_end from coppice.storage_hours where branch_id = $1 order by kind, hour desc',
          [branch],
        );
        return Object.fromEntries(found.map(({ kind, bytes_end }) => [kind, bytes_end]));
      };
      await measure(project.branch_id, 'logical_size_bytes = 9000, unshared_size_bytes = 100');
      await measure(child, 'logical_size_bytes = 9000, unshared_size_bytes = 100, archive_bytes = 5');
      assert.deepEqual(await held(project.branch_id), { logical: 9000, root: 9000 });
      assert.deepEqual(await held(child), { logical: 9000, child: 100, history: 5 });
      await rows('update coppice.branches set deleted_at = now() where id = $1', [child]);
      assert.deepEqual(await held(child), { logical: 0, child: 0, history: 0 });
      await rows('update coppice.branches set deleted_at = null where id = $1', [child]);
      assert.deepEqual(await held(child), { logical: 9000, child: 100, history: 5 });
    });
  });

  it('makes nobody wait in a ring who deletes a branch while its size is measured', async () => {
    const [deleting, measuring] = [await api.store.pool.connect(), await api.store.pool.connect()];
    try {
      const timeline = 'id = (select timeline_id from coppice.branches where id = $1)';
      await measuring.query('begin');
      await measuring.query(`update coppice.timelines set logical_size_bytes = 1 where ${timeline}`, [
        project.branch_id,
      ]);
      await measuring.query('commit');
      await deleting.query('begin');
      await deleting.query('update coppice.branches set deleted_at = now() where id = $1', [project.branch_id]);
      await measuring.query(`update coppice.timelines set logical_size_bytes = 2 where ${timeline}`, [
        project.branch_id,
      ]);
      await deleting.query(`update coppice.timelines set deleted_at = now() where ${timeline}`, [project.branch_id]);
      await deleting.query('commit');
    } finally {
      deleting.release();
      measuring.release();
    }
    const held = await rows('select distinct bytes_end from coppice.storage_hours where branch_id = $1', [
      project.branch_id,
    ]);
    assert.deepEqual(held, [{ bytes_end: 0 }]);
  });

  it('is kept for as long as it is to be, and what is stored stays known', async () => {
    const at = ['2025-01-10T10:00:00Z', '2025-01-11T10:00:00Z', '2025-03-01T10:00:00Z'];
    for (const [index, moment] of at.entries()) {
      await rows('select coppice.add_usage($1, $2, $3, active => 1000000)', [project.branch_id, project.id, moment]);
      await rows("select coppice.set_storage($1, $2, 'root', $3, $4)", [
        ...[project.branch_id, project.id],
        ...[index + 1, moment],
      ]);
    }
    while ((await forgetUsage(api.store.store, new Date('2025-02-01T00:00:00Z'), 1)) > 0);
    const left = async (table: string) =>
      (await rows(`select hour from coppice.${table} where branch_id = $1 order by hour`, [project.branch_id])).map(
        ({ hour }) => hour.toISOString().slice(0, 10),
      );
    assert.deepEqual(await left('usage_hours'), ['2025-03-01']);
    assert.deepEqual(await left('storage_hours'), ['2025-01-11', '2025-03-01']);
  });
});
