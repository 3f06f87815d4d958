import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { BOOTSTRAP_KEY, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { query } from '../support/customer.ts';
import { createLiveProject, type LiveProject } from '../support/live-project.ts';

const run = promisify(execFile);
const NEONCTL = fileURLToPath(new URL('../../node_modules/.bin/neonctl', import.meta.url));

/** The string that a client builds by itself, over TLS and by the name of the host. */
describe('the past, as neonctl and psql find it', { timeout: 300_000 }, () => {
  let coppice: TestCoppice;
  let project: LiveProject;
  let home: string;
  before(async () => {
    home = await mkdtemp(join(tmpdir(), 'home-'));
    coppice = await startCoppice();
    project = await createLiveProject(coppice);
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
    await rm(home, { recursive: true, force: true });
  });

  const connectionString = async (branch: string): Promise<string> => {
    const words = ['connection-string', branch, '--project-id', project.id, '--no-analytics', '--config-dir', home];
    const { stdout } = await run(NEONCTL, words, {
      cwd: home,
      env: {
        PATH: process.env.PATH,
        HOME: home,
        CI: 'true',
        NEON_API_KEY: BOOTSTRAP_KEY,
        NEON_API_HOST: `http://localhost:${coppice.api_port}/api/v2`,
      },
    });
    return stdout.trim();
  };
  const psql = async (uri: string, sql: string): Promise<string> => {
    const { stdout } = await run('psql', [uri, '-X', '-A', '-t', '-v', 'ON_ERROR_STOP=1', '-c', sql]);
    return stdout.trim();
  };

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
});
