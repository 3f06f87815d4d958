import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { connect, query } from '../support/customer.ts';
import { createLiveProject, type LiveProject } from '../support/live-project.ts';
import { until } from '../support/until.ts';

const MIB = 1024 ** 2;

/** From real work to the numbers that the API shows. */
describe('what a branch uses', { timeout: 300_000 }, () => {
  let coppice: TestCoppice;
  let project: LiveProject;
  const born_at = Date.now();

  before(async () => {
    coppice = await startCoppice();
    project = await createLiveProject(coppice, { default_endpoint_settings: { suspend_timeout_seconds: -1 } });
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
  });

  const shown = async () => (await coppice.must('GET', project.path)).project;
  const branch = async () => (await coppice.must('GET', project.branch_path)).branch;
  const activeMs = async () => {
    const { rows } = await coppice.ownDatabase(
      `select coalesce(sum(active_us), 0)::float8 / 1000 as ms from coppice.usage_hours where branch_id = '${project.branch_id}'`,
    );
    return rows[0].ms as number;
  };

  it('is the time that its compute runs, which is added while it runs and when it stops', async () => {
    await until(async () => (await activeMs()) > 1_000, { what: 'a second to be added', timeout_ms: 60_000 });
    const running = await activeMs();
    await project.suspend();
    const asleep = await activeMs();
    assert.ok(asleep > running);
    assert.ok(asleep <= Date.now() - born_at, `${asleep} ms`);
    const [of_project, of_branch] = [await shown(), await branch()];
    assert.equal(of_project.active_time_seconds, Math.floor(asleep / 1000));
    assert.equal(of_branch.active_time_seconds, Math.floor(asleep / 1000));
    assert.equal(of_project.compute_time_seconds, Math.floor(asleep / 4_000), 'at a quarter of a CU');
    assert.equal(await activeMs(), asleep, 'nothing is added while it sleeps');
  });

  it('is what it writes, and what goes to and comes from its clients', async () => {
    const before = await shown();
    await using client = await connect(project.uri);
    await client.query('create table filler as select gen_random_uuid() as id, n from generate_series(1, 40000) n');
    const { rows } = await client.query('select repeat(id::text, 4) as text from filler limit 20000');
    assert.equal(rows.length, 20_000);
    await until(async () => (await shown()).written_data_bytes >= before.written_data_bytes + MIB, {
      what: 'what was written to be added',
      timeout_ms: 60_000,
    });
    await until(async () => (await shown()).data_transfer_bytes >= before.data_transfer_bytes + 20_000 * 144, {
      what: 'what was sent to be added',
      timeout_ms: 60_000,
    });
    const sent = (await shown()).data_transfer_bytes - before.data_transfer_bytes;
    assert.ok(sent < 20_000 * 144 * 2, `${sent} bytes`);
    assert.equal((await branch()).data_transfer_bytes, (await shown()).data_transfer_bytes);
    const { rows: received } = await coppice.ownDatabase(
      `select sum(received_bytes)::integer as bytes, sum(sent_bytes - private_bytes)::integer as public from coppice.usage_hours where branch_id = '${project.branch_id}'`,
    );
    assert.ok(received[0].bytes > 100);
    assert.equal(received[0].public, 0, 'who comes from this machine comes from a private network');
    const metrics = await (await fetch(`http://127.0.0.1:${coppice.api_port}/metrics`)).text();
    const measured = Number(/^coppice_usage_sent_bytes_total (\d+)$/m.exec(metrics)?.[1]);
    assert.ok(measured >= 20_000 * 144, String(measured));
  });

  it('is what it stores', async () => {
    await until(async () => (await shown()).synthetic_storage_size > MIB, { what: 'a size', timeout_ms: 60_000 });
    const { projects } = await coppice.must(
      'GET',
      `/consumption_history/projects?granularity=daily&project_ids=${project.id}&from=${new Date().toISOString()}&to=${new Date(Date.now() + 86_400_000).toISOString()}`,
    );
    const frame = projects[0].periods[0].consumption.at(-1);
    assert.ok(frame.synthetic_storage_size_bytes > MIB);
    assert.ok(frame.written_data_bytes > MIB);
  });

  it('that has a quota which is used up sleeps, clients are told why, and all is well when it is raised', async () => {
    const setQuota = (quota: object) => coppice.must('PATCH', project.path, { project: { settings: { quota } } });
    await query(project.uri, 'select 1');
    await using client = await connect(project.uri);
    // Who looks into the past uses, too.
    const past = new URL(project.uri);
    const [{ lsn }] = await query(project.uri, 'select pg_current_wal_flush_lsn()::text as lsn');
    past.searchParams.set('options', `endpoint=${project.branch_id} neon_lsn:${lsn}`);
    await using other = await connect(past.href);
    await other.query('begin');
    await setQuota({ active_time_seconds: 1 });
    await until(async () => (await project.state()) === 'idle', { what: 'the compute to sleep', timeout_ms: 60_000 });
    assert.deepEqual([await client.broken, await other.broken], ['57P01', '57P01']);
    await coppice.settled(project.id);
    await assert.rejects(query(past.href, 'select 1'), { code: '53400' });
    await assert.rejects(query(project.uri, 'select 1'), {
      code: '53400',
      message: /the quota of active time is used up: computes start again when it is raised/,
    });
    const refused = await coppice.call('POST', `${project.endpoint_path}/start`);
    assert.deepEqual([refused.status, refused.body.code], [422, 'ACTIVE_TIME_QUOTA_EXCEEDED']);
    await setQuota({ active_time_seconds: 3600 });
    assert.deepEqual(await query(project.uri, 'select 1 as one'), [{ one: 1 }]);
    // That of size is for each branch; this one holds more than a template does.
    await setQuota({ logical_size_bytes: MIB });
    await until(async () => (await project.state()) === 'idle', { what: 'the compute to sleep', timeout_ms: 60_000 });
    await assert.rejects(query(project.uri, 'select 1'), { code: '53400', message: /as large as the quota/ });
    await setQuota({});
    assert.deepEqual(await query(project.uri, 'select 1 as one'), [{ one: 1 }]);
  });

  it('is not counted twice by a Coppice that was killed and comes back, nor lost but for moments', async () => {
    await query(project.uri, 'select 1');
    await until(async () => (await activeMs()) > 0, { what: 'the run' });
    const [before, before_at] = [await activeMs(), Date.now()];
    await coppice.kill();
    const { data_directory } = coppice;
    coppice = await startCoppice({ data_directory });
    const path = project.endpoint_path;
    await until(async () => (await activeMs()) > before, { what: 'time to be added again', timeout_ms: 60_000 });
    await coppice.must('POST', `${path}/suspend`);
    await coppice.settled(project.id);
    const added = (await activeMs()) - before;
    // What had run before the first reading, and was not added yet then, comes on top: a round is ten seconds.
    assert.ok(added <= Date.now() - before_at + 30_000, `${added} ms`);
  });
});
