import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { judgeText, UNREAD } from '../../src/gateway/pool/judge-text.ts';
import { TAINT } from '../../src/gateway/pool/session-state.ts';

const HARMLESS = [
  'SELECT 1',
  'select abalance from pgbench_accounts where aid = 5;',
  'SELECT count(*), coalesce(sum(a), 0) FROM t WHERE id IN (1, 2) AND (b = 2 OR c LIKE lower($1))',
  '/* app:web */ SELECT a FROM t',
  'UPDATE t SET a = a + 1, b = (SELECT 2) WHERE id = $1 RETURNING a',
  'DELETE FROM t WHERE id = any($1)',
  'WITH x AS (SELECT 1) SELECT * FROM x',
  'BEGIN; SELECT 1; COMMIT',
  'begin isolation level serializable',
  'SET LOCAL search_path = x',
  'ROLLBACK TO SAVEPOINT a',
  'SHOW TimeZone',
];

const SOFT = [
  '',
  "SET search_path = 'x'",
  'set role other',
  'SELECT 1; SET a.b = 1',
  "SELECT set_config('a.b', 'c', false)",
  "SELECT SET_CONFIG ('a.b', 'c', false)",
  "SELECT pg_catalog . set_config('a.b', 'c', false)",
  `SELECT "set_config"('a.b', 'c', false)`,
  `SELECT U&"set!005Fconfig" UESCAPE '!' ('a.b', 'c', false)`,
  "SELECT set_config/* */('a.b', 'c', false)",
  "SELECT set_config -- \n('a.b', 'c', false)",
  '/* /* nested */ */ SET a.b = 1; SELECT 1',
  'SELECT pg_advisory_lock(1)',
  'SELECT pg_try_advisory_lock(1)',
  'SELECT 1 INTO TEMP t',
  'SELECT 1 INTO t',
  'CREATE TEMP TABLE t ()',
  'DECLARE c CURSOR WITH HOLD FOR SELECT 1',
  'SELECT my_own(1)',
  "SELECT nextval('s')",
  'INSERT INTO t VALUES (1)',
  'UPDATE t SET a = DEFAULT',
  'COPY t FROM STDIN',
];

const HARD = [
  'PREPARE a AS SELECT 1',
  'SELECT 1; prepare a as select 1',
  'EXECUTE a',
  'DO $$ BEGIN END $$',
  'CALL p()',
  'DISCARD ALL',
];

const LASTING = ["LOAD 'auto_explain'", 'SELECT setseed(0.5)', "SELECT dblink_connect('a', 'b')"];

describe('judging the text of a statement', () => {
  for (const text of HARMLESS) it(`finds harmless: ${text}`, () => assert.equal(judgeText(text).taint, TAINT.none));
  for (const text of SOFT) it(`does not trust: ${text}`, () => assert.equal(judgeText(text).taint, TAINT.soft));
  for (const text of HARD)
    it(`expects prepared statements of: ${text}`, () => assert.equal(judgeText(text).taint, TAINT.hard));
  for (const text of LASTING)
    it(`gives the session up after: ${text}`, () => assert.equal(judgeText(text).taint, TAINT.lasting));

  it('does not read long texts', () => {
    assert.equal(judgeText(`SELECT '${'x'.repeat(10_000)}'`), UNREAD);
    assert.equal(
      judgeText(`SELECT ${'('.repeat(4000)}`).taint,
      TAINT.none,
      'in a time that does not grow with their square',
    );
  });

  it('knows what drops prepared statements, and which', () => {
    assert.equal(judgeText('DEALLOCATE ALL').deallocates_all, true);
    assert.equal(judgeText('begin; discard all').deallocates_all, true);
    assert.equal(judgeText('DEALLOCATE Foo;').deallocates, 'foo');
    assert.equal(judgeText('deallocate prepare "Fo""o"').deallocates, 'Fo"o');
    assert.equal(judgeText('DEALLOCATE a; SELECT 1').deallocates, undefined);
  });

  it('knows who asks for notifications', () => {
    assert.equal(judgeText('LISTEN a').listens, true);
    assert.equal(judgeText('SELECT 1; LISTEN a').listens, true);
    assert.equal(judgeText('NOTIFY a').listens, false);
    assert.equal(judgeText('SELECT * FROM listen').listens, false);
  });
});
