import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PG_SETTINGS, pgSettingNeedsRestart, pgSettingProblem } from '../../../src/domain/pg-settings.ts';
import { startStoreServer } from '../../support/store.ts';

describe('Postgres settings of an endpoint', () => {
  const values: [name: string, value: string, allowed: boolean][] = [
    ['work_mem', '64MB', true],
    ['work_mem', '65536', true],
    ['work_mem', '1.5 GB', true],
    ['WORK_MEM', '64MB', true],
    ['work_mem', '64mb', false],
    ['work_mem', '064', false],
    ['work_mem', '0x40', false],
    ['work_mem', '64 parsecs', false],
    ['work_mem', '5s', false],
    ['work_mem', '63', false],
    ['work_mem', '', false],
    ['work_mem', "1'", false],
    ['statement_timeout', '5 s', true],
    ['statement_timeout', '1min', true],
    ['statement_timeout', '5MB', false],
    ['statement_timeout', '-1', false],
    ['checkpoint_timeout', '30min', true],
    ['checkpoint_timeout', '10', false],
    ['random_page_cost', '1.1', true],
    ['random_page_cost', '1e1', true],
    ['random_page_cost', '-1', false],
    ['random_page_cost', '1e999', false],
    ['default_statistics_target', '500', true],
    ['default_statistics_target', '500MB', false],
    ['jit', 'off', true],
    ['jit', 'FALSE', true],
    ['jit', 'maybe', false],
    ['jit', ' off', false],
    ['plan_cache_mode', 'force_generic_plan', true],
    ['plan_cache_mode', 'fastest', false],
    ['default_transaction_isolation', 'repeatable read', true],
    ['synchronous_commit', 'off', true],
  ];
  for (const [name, value, allowed] of values) {
    it(`${allowed ? 'may' : 'may not'} be ${name} = '${value}'`, () => {
      assert.equal(pgSettingProblem(name, value) === undefined, allowed, pgSettingProblem(name, value));
    });
  }

  it('are not those that durability, files, memory of the size, or the observation of activity hang on', () => {
    for (const name of [
      'fsync',
      'full_page_writes',
      'wal_recycle',
      'archive_command',
      'shared_preload_libraries',
      'local_preload_libraries',
      'shared_buffers',
      'max_connections',
      'track_counts',
      'track_activities',
      'log_statement',
      'log_min_duration_statement',
      'hba_file',
      'unix_socket_directories',
      'search_path',
      'role',
      '__proto__',
    ]) {
      assert.notEqual(pgSettingProblem(name, 'on'), undefined, name);
    }
  });

  it('are as a server has them: type, unit, range and what takes effect when', async () => {
    const server = await startStoreServer();
    try {
      const { pool } = await server.createStore();
      const { rows } = await pool.query(
        'select lower(name) as name, context, vartype, unit, min_val::float, max_val::float, enumvals from pg_settings',
      );
      const real = new Map(rows.map((row) => [row.name, row]));
      for (const [name, { restart, value }] of PG_SETTINGS) {
        const setting = real.get(name);
        assert.ok(setting, `${name} is no setting`);
        assert.equal(setting.vartype, value.type, name);
        assert.equal(setting.context === 'postmaster', restart, name);
        assert.equal(pgSettingNeedsRestart(name), restart, name);
        if (value.type === 'enum') {
          const unknown = value.values.filter((one) => !setting.enumvals.includes(one));
          assert.deepEqual(unknown, [], name);
        } else if (value.type !== 'bool') {
          assert.equal(setting.unit ?? undefined, value.unit, name);
          assert.ok(setting.min_val <= value.min && value.max <= setting.max_val, name);
        }
      }
    } finally {
      await server.stop();
    }
  });
});
