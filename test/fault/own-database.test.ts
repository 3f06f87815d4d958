import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import pg from 'pg';
import { removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { until } from '../support/until.ts';

describe("Coppice's own database is killed", { timeout: 180_000 }, () => {
  let coppice: TestCoppice;
  let projectId: string;
  let uri: string;

  /** The API answers for a moment longer; it has noticed once it has refused. */
  const killDatabase = async () => {
    const file = await readFile(join(coppice.data_directory, 'store/data/postmaster.pid'), 'utf8');
    process.kill(Number(file.split('\n')[0]), 'SIGKILL');
    await until(async () => !(await answers()), { what: 'the API to refuse', interval_ms: 1 });
  };
  const answers = async () => {
    const answer = await coppice.call('GET', `/projects/${projectId}`);
    // Whoever asks meanwhile is told to ask again.
    assert.ok([200, 503].includes(answer.status), `${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.status === 200;
  };

  before(async () => {
    coppice = await startCoppice();
    const created = await coppice.must('POST', '/projects', { project: {} });
    projectId = created.project.id;
    uri = created.connection_uris[0].connection_uri;
    await coppice.settled(projectId);
  });
  after(async () => {
    assert.equal(coppice.process.exitCode ?? coppice.process.signalCode, null, 'Coppice itself has ended');
    await coppice.stop();
    await removeDataDirectory(coppice.data_directory);
  });

  it('and is started again, while clients of computes notice nothing', async () => {
    const client = new pg.Client({ connectionString: uri });
    await client.connect();
    await killDatabase();
    assert.equal((await client.query('select 1 as one')).rows[0].one, 1);
    await until(answers, { what: 'the API to answer again' });
    assert.equal((await client.query('select 1 as one')).rows[0].one, 1);
    await client.end();
  });

  it('in the middle of operations, which all reach an end', async () => {
    const branches = Array.from({ length: 6 }, (_, index) =>
      coppice.must('POST', `/projects/${projectId}/branches`, {
        branch: { name: `b${index}` },
        endpoints: [{ type: 'read_write' }],
      }),
    );
    const created = await Promise.all(branches);
    await killDatabase();
    await until(answers, { what: 'the API to answer again' });
    await coppice.settled(projectId);
    for (const { connection_uris } of created) {
      const client = new pg.Client({ connectionString: connection_uris[0].connection_uri });
      await client.connect();
      assert.equal((await client.query('select 1 as one')).rows[0].one, 1);
      await client.end();
    }
  });
});
