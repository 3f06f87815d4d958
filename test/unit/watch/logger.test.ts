import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createLogger } from '../../../src/watch/logger.ts';

/** A stream that keeps what is written. */
function memoryStream(isTTY = false) {
  const lines: string[] = [];
  return { lines, isTTY, write: (line: string) => lines.push(line) };
}

const SECRETS = {
  authorization: 'Bearer napi_0123456789abcdef',
  password: 'tr"icky\\one',
  bootstrap_api_key: 'sesame-sesame-sesame',
  nested: { deeper: { verifier: 'SCRAM-SHA-256$4096:c2FsdA==$c3RvcmVk:c2VydmVy', key: 'sesame-key' } },
};

describe('the log', () => {
  test('is one JSON object a line with the fields of its loggers', () => {
    const stream = memoryStream();
    const log = createLogger({ level: 'info', stream }).child({ room: 'engine' });
    log.info({ operation_id: 'op-1', duration_ms: 12 }, 'operation finished');
    log.debug({}, 'not shown at this level');
    assert.equal(stream.lines.length, 1);
    const { time, ...line } = JSON.parse(stream.lines[0]!);
    assert.ok(Number.isInteger(time));
    assert.deepEqual(line, {
      level: 30,
      room: 'engine',
      operation_id: 'op-1',
      duration_ms: 12,
      msg: 'operation finished',
    });
  });

  test('hides secret fields at any depth and stays JSON', () => {
    const stream = memoryStream();
    createLogger({ level: 'info', stream }).info(SECRETS as object, 'request');
    const [line] = stream.lines;
    for (const secret of ['napi_0', 'icky', 'sesame', 'c2FsdA', 'c3RvcmVk']) assert.ok(!line!.includes(secret), line);
    const { nested, password } = JSON.parse(line!);
    assert.equal(password, '[hidden]');
    assert.deepEqual(nested, { deeper: { verifier: '[hidden]', key: '[hidden]' } });
  });

  test('hides secrets that an error quotes', () => {
    const cause = new Error("role made with password=hunter2 and PASSWORD 'hunter\"3'");
    const err = new Error('could not connect to postgres://ada:hunter2@127.0.0.1/shop with npg_Abcdefgh12345678', {
      cause,
    });
    const stream = memoryStream();
    createLogger({ level: 'info', stream }).error({ err }, 'store is away');
    const [line] = stream.lines;
    assert.ok(!/hunter|npg_A/.test(line!), line);
    assert.match(JSON.parse(line!).err.message, /postgres:\/\/ada:\[hidden\]@127\.0\.0\.1\/shop/);
  });

  test('leaves sentences about passwords as they are', () => {
    const stream = memoryStream();
    createLogger({ level: 'info', stream }).warn({ role: 'ada' }, 'password authentication failed for a role');
    assert.equal(JSON.parse(stream.lines[0]!).msg, 'password authentication failed for a role');
  });

  test('is a plain line on a terminal', () => {
    const stream = memoryStream(true);
    const log = createLogger({ level: 'info', stream });
    log.warn({ endpoint_id: 'ep-1', attempt: 2 }, 'compute did not stop');
    log.error({ err: new Error('no space left') }, 'clone failed');
    assert.match(stream.lines[0]!, /^\d\d:\d\d:\d\d warn {2}compute did not stop endpoint_id=ep-1 attempt=2\n$/);
    assert.match(stream.lines[1]!, /^\d\d:\d\d:\d\d error clone failed\n {4}Error: no space left\n/);
  });
});
