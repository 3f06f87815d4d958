import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { PG_SETTINGS } from '../../src/domain/pg-settings.ts';
import type { PreloadChoice } from '../../src/domain/preload-libraries.ts';
import { postgresqlConf, quietConf, type SettingsSource } from '../../src/postgres/settings.ts';
import { type Cluster, MAJORS, type Nursery, openNursery } from '../support/postgres.ts';
import { seededRandom, testSeed } from '../support/random.ts';

const run = promisify(execFile);
const fixed = (cu: number): SettingsSource => ({ major: 17, range: { min_cu: cu, max_cu: cu } });

/** The settings of a file, by name, as they stand there. */
function parse(text: string): Map<string, string> {
  const lines = text.split('\n').filter(Boolean);
  const settings = new Map(lines.map((line) => line.split(/ = (.*)/s).slice(0, 2) as [string, string]));
  assert.equal(settings.size, lines.length, 'a name stands twice');
  return settings;
}

test('a size decides connections, workers and memory as in the published table', () => {
  const table = [
    [0.25, 112, 12, '128MB', '65536kB', '768MB'],
    [1, 450, 14, '128MB', '68759kB', '3072MB'],
    [2, 901, 16, '230MB', '137518kB', '6144MB'],
    [8, 3604, 28, '909MB', '550072kB', '24576MB'],
    [9, 4000, 30, '1008MB', '618831kB', '27648MB'],
    [56, 4000, 124, '1032MB', '3850508kB', '172032MB'],
  ] as const;
  for (const [cu, connections, workers, shared, maintenance, cache] of table) {
    const settings = parse(postgresqlConf(fixed(cu)));
    assert.equal(settings.get('max_connections'), String(connections), `${cu} CU`);
    assert.equal(settings.get('max_worker_processes'), String(workers), `${cu} CU`);
    assert.equal(settings.get('shared_buffers'), `'${shared}'`, `${cu} CU`);
    assert.equal(settings.get('maintenance_work_mem'), `'${maintenance}'`, `${cu} CU`);
    assert.equal(settings.get('effective_cache_size'), `'${cache}'`, `${cu} CU`);
  }
});

test('temporary files may take 20 GiB, or 15 GiB for each CU where that is more', () => {
  assert.equal(parse(postgresqlConf(fixed(0.25))).get('temp_file_limit'), `'${20 * 1024 ** 2}kB'`);
  assert.equal(parse(postgresqlConf(fixed(2))).get('temp_file_limit'), `'${30 * 1024 ** 2}kB'`);
});

test('neither a customer nor the platform turns durability off', () => {
  const off = { fsync: 'off', full_page_writes: 'off', wal_recycle: 'on' };
  const settings = parse(postgresqlConf({ ...fixed(1), pg_settings: off, platform: off }));
  assert.equal(settings.get('fsync'), 'on');
  assert.equal(settings.get('full_page_writes'), 'on');
  assert.equal(settings.get('wal_recycle'), 'off');
});

test('what a customer may not set, or not so, is left out, whatever its letters', () => {
  const pg_settings = {
    shared_preload_libraries: 'evil',
    Archive_Command: 'rm -rf /',
    listen_addresses: '*',
    log_statement: 'all',
    hba_file: '/tmp/hba',
    ssl_passphrase_command: 'id',
    restore_command: 'id',
    work_mem: "64MB'\narchive_command = 'id",
    __proto__: 'x',
    WORK_MEM: '8MB',
  };
  const text = postgresqlConf({ ...fixed(1), pg_settings });
  const settings = parse(text);
  assert.doesNotMatch(text, /evil|rm -rf|'\*'|'all'|\/tmp|id'/);
  assert.equal(settings.get('work_mem'), "'8MB'");
  assert.equal(settings.get('listen_addresses'), undefined);
});

test('logical replication raises the WAL level, and nothing else does', () => {
  assert.equal(parse(postgresqlConf(fixed(1))).get('wal_level'), "'replica'");
  assert.equal(parse(postgresqlConf({ ...fixed(1), logical_replication: true })).get('wal_level'), "'logical'");
});

test('the libraries that a project chose are loaded, beside the usual ones or in their place', () => {
  const loaded = (preload_libraries?: PreloadChoice) =>
    parse(postgresqlConf({ ...fixed(1), preload_libraries })).get('shared_preload_libraries');
  assert.equal(loaded(), "'pg_stat_statements'");
  assert.equal(loaded({ enabled_libraries: ['pg_prewarm', 'evil'] }), "'pg_stat_statements,pg_prewarm'");
  assert.equal(loaded({ use_defaults: false, enabled_libraries: ['pg_prewarm'] }), "'pg_prewarm'");
  assert.equal(loaded({ use_defaults: false }), "''");
});

test('a quiet server runs nothing by itself', () => {
  const settings = parse(quietConf({ ...fixed(1), pg_settings: { autovacuum: 'on' } }));
  assert.equal(settings.get('autovacuum'), 'off');
  assert.equal(settings.get('max_logical_replication_workers'), '0');
  assert.equal(settings.get('shared_preload_libraries'), "''");
  assert.equal(settings.get('archive_mode'), 'off');
});

test('a line end cannot be put into a value', () => {
  assert.throws(() => postgresqlConf({ ...fixed(1), platform: { archive_command: 'a\nb' } }), /line end/);
});

describe('real servers', () => {
  let nursery: Nursery;
  before(async () => {
    nursery = await openNursery();
  });
  after(() => nursery[Symbol.asyncDispose]());

  /** What a server makes of a configuration: the value of one setting; fails when the server refuses any. */
  async function ask({ distribution, path, owner }: Cluster, text: string, name: string): Promise<string> {
    const file = join(nursery.directory, `postgresql-${distribution.major}.conf`);
    await writeFile(file, text, { mode: 0o644 });
    const args = ['-D', path, '-c', `config_file=${file}`, '-C', name];
    const { stdout } = await run(join(distribution.root, 'bin/postgres'), args, { ...owner, env: {} });
    return stdout.replace(/\n$/, '');
  }

  for (const major of MAJORS) {
    test(`${major} takes the file of every size and every customer's setting at its bounds`, async () => {
      const cluster = await nursery.plant(major);
      const bounds = (pick: 'least' | 'most'): Record<string, string> =>
        Object.fromEntries(
          [...PG_SETTINGS].map(([name, { value }]) => {
            if (value.type === 'bool') return [name, pick === 'least' ? 'off' : 'on'];
            if (value.type === 'enum') return [name, value.values.at(pick === 'least' ? 0 : -1)!];
            return [name, String(pick === 'least' ? value.min : value.max)];
          }),
        );
      for (const pg_settings of [{}, bounds('least'), bounds('most')]) {
        for (const cu of [0.25, 56]) {
          const text = postgresqlConf({ ...fixed(cu), major, pg_settings });
          const expected = parse(text).get('max_connections');
          assert.equal(await ask(cluster, text, 'max_connections'), expected);
          const quiet = quietConf({ ...fixed(cu), major, pg_settings });
          assert.equal(await ask(cluster, quiet, 'autovacuum'), 'off');
        }
      }
    });
  }

  test('a value comes out of the file as it was put in', async () => {
    const seed = testSeed();
    console.log(`seed ${seed}`);
    const random = seededRandom(seed);
    const cluster = await nursery.plant(17);
    const alphabet = ["'", '\\', '"', '#', '=', ' ', '%', '$', ';', 'a', 'n', '0', 'é', '\t'];
    for (let round = 0; round < 20; round++) {
      const length = 1 + Math.floor(random() * 20);
      const value = Array.from({ length }, () => alphabet[Math.floor(random() * alphabet.length)]).join('');
      const text = postgresqlConf({ ...fixed(1), platform: { archive_command: value } });
      assert.equal(await ask(cluster, text, 'archive_command'), value);
    }
  });
});
