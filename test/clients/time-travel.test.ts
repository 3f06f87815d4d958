import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { BOOTSTRAP_KEY, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { query } from '../support/customer.ts';
import { createLiveProject, type LiveProject } from '../support/live-project.ts';
import { type Neonctl, openNeonctl } from '../support/neonctl.ts';
import { psql } from '../support/psql.ts';

/** The string that a client builds by itself, over TLS and by the name of the host. */
describe('the past, as neonctl and psql find it', { timeout: 300_000 }, () => {
  let coppice: TestCoppice;
  let project: LiveProject;
  let neonctl: Neonctl;
  before(async () => {
    coppice = await startCoppice();
    neonctl = await openNeonctl({ api_port: coppice.api_port, key: BOOTSTRAP_KEY });
    project = await createLiveProject(coppice);
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
    await neonctl?.remove();
  });

  const connectionString = async (branch: string): Promise<string> =>
    (await neonctl.run('connection-string', branch, '--project-id', project.id)).trim();

  it('is one connection string away, by position and by time', async () => {
    await query(project.uri, 'create table notes (id int)');
    const [then] = await query(
      project.uri,
      `select pg_current_wal_insert_lsn()::text as lsn,
         to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as time`,
    );
    await query(project.uri, 'insert into notes select generate_series(1, 5)');
    for (const point of [then.lsn, then.time]) {
      const uri = await connectionString(`main@${point}`);
      assert.ok(uri.includes(`@${project.branch_id}.localhost`), uri);
      assert.equal(await psql(uri, 'select count(*) from notes'), '0');
      await assert.rejects(psql(uri, 'insert into notes values (6)'), /read-only transaction/);
    }
    assert.equal(await psql(await connectionString('main'), 'select count(*) from notes'), '5');
  });

  it('is where neonctl takes psql, and its diagnostics, as to the present', async () => {
    await query(project.uri, 'create table pages (id int)');
    const [then] = await query(project.uri, 'select pg_current_wal_insert_lsn()::text as lsn');
    await query(project.uri, 'insert into pages select generate_series(1, 3)');
    const count = async (branch: string) => {
      const ask = ['--project-id', project.id, '--', '-Atc', 'select count(*) from pages'];
      return (await neonctl.run('psql', branch, ...ask)).trim();
    };
    assert.equal(await count('main'), '3');
    assert.equal(await count(`main@${then.lsn}`), '0');
    for (const [what, shown] of [
      ['table-sizes', /pages/],
      ['seq-scans', /pages/],
    ] as const) {
      assert.match(await neonctl.run('inspect', 'db', what, '--project-id', project.id), shown);
    }
  });
});
