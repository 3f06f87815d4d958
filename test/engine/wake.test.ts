import assert from 'node:assert/strict';
import { once } from 'node:events';
import { rename } from 'node:fs/promises';
import { Socket } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import pg from 'pg';
import { removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { connect, query, refusal } from '../support/customer.ts';
import { createLiveProject, dataDirectoryOf, type LiveProject } from '../support/live-project.ts';
import { until } from '../support/until.ts';

const CLIENTS = 30;
/** The compute takes some hundred. */
const CROWD = 60;
const ROUNDS = 12;

describe('a compute that sleeps', { timeout: 180_000 }, () => {
  let coppice: TestCoppice;
  let project: LiveProject;

  before(async () => {
    coppice = await startCoppice();
    project = await createLiveProject(coppice, { default_endpoint_settings: { suspend_timeout_seconds: -1 } });
    await query(project.uri, 'create table visits (round int)');
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
  });

  const withPassword = (password: string) => {
    const uri = new URL(project.uri);
    uri.password = password;
    return uri.href;
  };
  const operationIds = async () => new Set((await project.operations()).map(({ id }) => id));
  const newSince = async (before: Set<string>) => (await project.operations()).filter(({ id }) => !before.has(id));

  it('is woken once for many who come at once, and serves them all', async () => {
    await project.suspend();
    const before = await operationIds();
    const answers = await Promise.all(
      Array.from({ length: CLIENTS }, (_, index) => query(project.uri, 'select $1::int as number', [index])),
    );
    assert.deepEqual(
      answers.map(([row]) => row.number),
      Array.from({ length: CLIENTS }, (_, index) => index),
    );
    const made = await newSince(before);
    assert.deepEqual(
      made.map(({ action }) => action),
      ['start_compute'],
    );
  });

  it('shows who is connected, and in the metrics what the wake took', async () => {
    await project.suspend();
    await using client = await connect(project.uri);
    await client.query('select 1');
    const { connections } = await coppice.must('GET', `${project.endpoint_path}/connections`);
    assert.deepEqual([connections.direct, connections.sessions_total], [{ active: 1, waiting: 0 }, 1]);
    assert.equal(connections.sessions[0].database_name, new URL(project.uri).pathname.slice(1));
    const scraped = await fetch(`http://127.0.0.1:${coppice.api_port}/metrics`);
    const metrics = await scraped.text();
    const endpoint_id = project.endpoint_path.split('/').at(-1);
    for (const [name, value] of [
      [`coppice_gateway_clients{endpoint_id="${endpoint_id}",host="direct",state="active"}`, '1'],
      [`coppice_gateway_wake_seconds_count{endpoint_id="${endpoint_id}",part="operation"}`, '\\d+'],
      ['coppice_operations_ended_total{action="start_compute",status="finished"}', '\\d+'],
      ['coppice_store_waiting{pool="intent"}', '0'],
    ] as const) {
      const escaped = name.replace(/[{}]/g, '\\$&');
      assert.match(metrics, new RegExp(`^${escaped} ${value}$`, 'm'));
    }
  });

  it('serves whoever comes while it is being put to sleep, without an error', async () => {
    const visit = async (round: number) => {
      await using client = await connect(project.uri);
      await client.query('insert into visits values ($1)', [round]);
    };
    for (let round = 0; round < ROUNDS; round++) {
      await visit(round);
      const suspending = coppice.must('POST', `${project.endpoint_path}/suspend`);
      if (round % 2 === 0) await suspending;
      // At every stage of the stop somebody comes.
      const { status } = await coppice.call('GET', project.path);
      assert.equal(status, 200);
      const clients: Promise<void>[] = [];
      const { operations } = await suspending;
      const ended = async () => ['finished', 'skipped'].includes((await project.operation(operations[0].id)).status);
      while (!(await ended())) if (clients.length < CROWD) clients.push(visit(round));
      clients.push(visit(round));
      await Promise.all(clients);
      await coppice.settled(project.id);
    }
    const [{ count }] = await query(project.uri, 'select count(distinct round)::int as count from visits');
    assert.equal(count, ROUNDS);
  });

  it('is not woken by who may not enter', async () => {
    await project.suspend();
    const before = await operationIds();
    assert.equal(await refusal(withPassword('wrong')), '28P01');
    const stranger = new URL(project.uri);
    stranger.username = 'nobody_here';
    assert.equal(await refusal(stranger.href), '28P01');
    assert.deepEqual(await newSince(before), []);
    assert.equal(await project.state(), 'idle');
  });

  it('is not woken while it is disabled, and says so', async () => {
    await coppice.must('PATCH', project.endpoint_path, { endpoint: { disabled: true } });
    await assert.rejects(query(project.uri, 'select 1'), /disabled/);
    assert.equal((await coppice.call('POST', `${project.endpoint_path}/start`)).status, 422);
    assert.equal(await project.state(), 'idle');
    await coppice.must('PATCH', project.endpoint_path, { endpoint: { disabled: false } });
    assert.equal(await refusal(project.uri), undefined);
  });

  it('is left by clients who go while they wait, without a trace', async () => {
    await project.suspend();
    const gone = Array.from({ length: 10 }, async () => {
      const socket = new Socket();
      const client = new pg.Client({ connectionString: project.uri, stream: () => socket });
      client.on('error', () => undefined);
      const connecting = client.connect().catch(() => undefined);
      // They have logged in, and wait for the compute.
      await once(client.connection, 'authenticationOk').catch(() => undefined);
      socket.destroy();
      await connecting;
    });
    await Promise.all(gone);
    await coppice.settled(project.id);
    assert.equal(await refusal(project.uri), undefined);
    const others = async () =>
      (
        await query(
          project.uri,
          `select from pg_stat_activity
           where backend_type = 'client backend' and usename = current_user and pid <> pg_backend_pid()`,
        )
      ).length;
    await until(async () => (await others()) === 0, { what: 'the sessions of those who left to end' });
  });

  it('tells who waits the operation that failed, and starts again when it can', async () => {
    const control = join(await dataDirectoryOf(project.uri), 'global/pg_control');
    await project.suspend();
    await rename(control, `${control}.away`);
    const before = await operationIds();
    const error: Error & { code?: string } = await query(project.uri, 'select 1').then(
      () => assert.fail('it cannot start'),
      (reason) => reason,
    );
    const [failed, ...others] = await newSince(before);
    assert.deepEqual(others, []);
    assert.equal(failed.status, 'failed');
    assert.equal(error.code, '57P03');
    assert.ok(error.message.includes(failed.id), error.message);
    await rename(`${control}.away`, control);
    assert.equal(await refusal(project.uri), undefined);
  });
});
