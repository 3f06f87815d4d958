import assert from 'node:assert/strict';
import { readFile, rename } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import pg from 'pg';
import { removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { until } from '../support/until.ts';

describe('a compute whose server is killed under load', { timeout: 180_000 }, () => {
  let coppice: TestCoppice;
  let projectId: string;
  let endpointId: string;
  let uri: string;

  const endpoint = async () => (await coppice.must('GET', `/projects/${projectId}/endpoints/${endpointId}`)).endpoint;
  const postmaster = async () => {
    const { rows } = await query("select current_setting('data_directory') as directory");
    return Number((await readFile(`${rows[0].directory}/postmaster.pid`, 'utf8')).split('\n')[0]);
  };
  const query = async (sql: string) => {
    const client = new pg.Client({ connectionString: uri });
    await client.connect();
    try {
      return await client.query(sql);
    } finally {
      await client.end();
    }
  };

  before(async () => {
    coppice = await startCoppice();
    const created = await coppice.must('POST', '/projects', { project: {} });
    projectId = created.project.id;
    endpointId = created.endpoints[0].id;
    uri = created.connection_uris[0].connection_uri;
    await coppice.settled(projectId);
    await query('create table acknowledged (writer int, number int)');
  });
  after(async () => {
    await coppice.stop();
    await removeDataDirectory(coppice.data_directory);
  });

  /** Inserts until the connection breaks; returns the last number that was acknowledged. */
  async function write(writer: number): Promise<number> {
    const client = new pg.Client({ connectionString: uri });
    // The kill is what this is about.
    client.on('error', () => undefined);
    await client.connect();
    let acknowledged = 0;
    try {
      for (;;) {
        await client.query('insert into acknowledged values ($1, $2)', [writer, acknowledged + 1]);
        acknowledged += 1;
      }
    } catch {
      return acknowledged;
    }
  }

  it('is started again by itself, with every acknowledged commit', async () => {
    const pid = await postmaster();
    const writers = [1, 2, 3, 4].map(write);
    const least = `select coalesce(min(count), 0)::int as least, count(*)::int as writers
      from (select count(*) from acknowledged group by writer)`;
    const underLoad = async () => {
      const [row] = (await query(least)).rows;
      return row.least > 20 && row.writers === writers.length;
    };
    await until(underLoad, { what: 'load of every writer' });
    process.kill(pid, 'SIGKILL');
    const last = await Promise.all(writers);
    // Nobody connects meanwhile: it comes back without being asked for.
    await until(
      async () => {
        const { operations } = await coppice.must('GET', `/projects/${projectId}/operations`);
        const [newest] = operations;
        return newest.action === 'start_compute' && newest.status === 'finished' && operations.length > 2;
      },
      { what: 'the compute to be started again' },
    );
    assert.equal((await endpoint()).current_state, 'active');
    assert.notEqual(await postmaster(), pid);
    const { rows } = await query(
      'select writer, max(number) as last, count(*)::int as count from acknowledged group by 1 order by 1',
    );
    for (const [index, acknowledged] of last.entries()) {
      assert.ok(rows[index].last >= acknowledged, `writer ${index + 1}: ${rows[index].last} of ${acknowledged}`);
      assert.equal(rows[index].count, rows[index].last);
    }
  });

  it('that cannot start says why in its operation, without secrets', async () => {
    const { rows } = await query("select current_setting('data_directory') as directory");
    const control = `${rows[0].directory}/global/pg_control`;
    await coppice.must('POST', `/projects/${projectId}/endpoints/${endpointId}/suspend`);
    await coppice.settled(projectId);
    await rename(control, `${control}.away`);
    const { operations } = await coppice.must('POST', `/projects/${projectId}/endpoints/${endpointId}/start`);
    const read = async () =>
      (await coppice.must('GET', `/projects/${projectId}/operations/${operations[0].id}`)).operation;
    await until(async () => (await read()).status === 'failed', { what: 'the start to fail', timeout_ms: 60_000 });
    const { error, failures_count } = await read();
    assert.ok(failures_count > 1);
    assert.match(error, /pg_control/);
    assert.doesNotMatch(error, /SCRAM-SHA-256\$|napi_|npg_/);
    await rename(`${control}.away`, control);
    await query('select 1');
    assert.equal((await endpoint()).current_state, 'active');
  });
});
