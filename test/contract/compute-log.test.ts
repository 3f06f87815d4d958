import assert from 'node:assert/strict';
import { appendFileSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { LIMITS } from '../../src/domain/limits.ts';
import { enter, openComputes } from '../support/computes.ts';
import { until } from '../support/until.ts';

const computes = await openComputes({ rotate_every_ms: 50 });
const { driver } = computes;
after(() => computes[Symbol.asyncDispose]());

test('a log is moved aside when it is full, and only the newest are kept', async () => {
  const spec = await computes.newSpec(17, { conf: 'log_statement = all\n' });
  const ref = await driver.ensureRunning(spec);
  const path = join(computes.stateDir, spec.id, 'postgres.log');
  const logs = () => readdirSync(join(computes.stateDir, spec.id)).filter((name) => name.startsWith('postgres.log'));
  const line = `${'x'.repeat(1023)}\n`;
  for (const round of [1, 2, 3, 4]) {
    appendFileSync(path, `of round ${round}\n${line.repeat(LIMITS.compute_log_bytes / 1024)}`);
    await until(() => statSync(path).size < LIMITS.compute_log_bytes, { what: 'the log to be emptied' });
  }
  await using client = await enter(driver, ref);
  await client.query(`select 'after the last round'`);
  assert.deepEqual(logs().sort(), ['postgres.log', 'postgres.log.1', 'postgres.log.2']);
  assert.match(readFileSync(`${path}.1`, 'utf8'), /of round 4/);
  assert.match(readFileSync(`${path}.2`, 'utf8'), /of round 3/);
  // The server goes on at the beginning of the emptied file, not where it had been.
  const text = readFileSync(path, 'utf8');
  assert.match(text, /after the last round/);
  assert.ok(text.length < LIMITS.compute_log_bytes && !text.includes('\0'));
  assert.match((await driver.tailLog(ref, 1))[0]!, /after the last round/);
  assert.equal((await driver.tailLog(ref, 100)).length, 100, 'the lines before it come from the file before');
});

test('the end of a log shows no secrets', async () => {
  const spec = await computes.newSpec(17, { conf: 'log_statement = all\nlog_min_error_statement = error\n' });
  const ref = await driver.ensureRunning(spec);
  await using client = await enter(driver, ref);
  const verifier = 'SCRAM-SHA-256$4096:c2FsdHNhbHQ=$c3RvcmVka2V5:c2VydmVya2V5';
  const statements = [
    `create role a password 'hush-1'`,
    `alter role a with login password E'hush-2\\'hush-2'`,
    `alter role a password\n  'hush-3'`,
    `alter role a password $tag$hush-4$tag$`,
    `alter role a password '${verifier}'`,
    `create subscription s connection 'host=h password=hush-5 user=u' publication p with (connect = false)`,
    `create subscription s2 connection 'host=h password=''hush-6 hush-6''' publication p with (connect = false)`,
    `select 'postgres://someone:hush-7@example.org/db'`,
    `select 'napi_hush8888888', 'Bearer hush-9.hush-9', 'md5${'0123456789abcdef'.repeat(2)}'`,
    `select 'eyJhbGciOiJIUzI1NiJ9.aHVzaC0xMA.aHVzaC0xMQ'`,
  ];
  for (const statement of statements) await client.query(statement).catch(() => undefined);
  await client.query(`select 'the last one'`);
  const text = (await driver.tailLog(ref, 1000)).join('\n');
  assert.match(text, /the last one/);
  for (const secret of ['hush', 'c3RvcmVka2V5', 'c2VydmVya2V5', '0123456789abcdef', 'aHVzaC0xMA']) {
    assert.doesNotMatch(text, new RegExp(secret));
  }
  assert.match(text, /create role a password '\[hidden\]'/);
  assert.match(text, /connection 'host=h password=\[hidden\]/);
  assert.match(text, /postgres:\/\/someone:\[hidden\]@example\.org/);
  assert.deepEqual(await driver.tailLog(ref, 0), []);
});
