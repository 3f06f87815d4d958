import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ComputeRefusal, Refusal, refusals } from '../../src/gateway/refusal.ts';
import { ComputeGone, nextMove, pauseMs } from '../../src/gateway/retry.ts';
import { chooseRoute, hostLabel, parseEndpointName } from '../../src/gateway/route.ts';

describe('the label of a host name', () => {
  const cases: [string | undefined, string | undefined][] = [
    ['ep-x.localhost', 'ep-x'],
    ['EP-X.LocalHost', 'ep-x'],
    ['ep-x.localhost.', 'ep-x'],
    ['ep-x-pooler.localhost', 'ep-x-pooler'],
    ['localhost', undefined],
    ['.localhost', undefined],
    ['a.b.localhost', undefined],
    ['ep-x.example.com', undefined],
    ['ep-xlocalhost', undefined],
    ['ep_x.localhost', undefined],
    [`${'a'.repeat(64)}.localhost`, undefined],
    [undefined, undefined],
  ];
  for (const [name, label] of cases)
    it(`of ${name} is ${label}`, () => assert.equal(hostLabel(name, 'localhost'), label));
});

describe('the route', () => {
  const route = (servername?: string, option?: string) => chooseRoute({ servername, option }, 'localhost');
  it('comes from the host name or from the option', () => {
    assert.deepEqual(route('ep-x.localhost'), { endpoint_id: 'ep-x', pooled: false });
    assert.deepEqual(route(undefined, 'ep-x'), { endpoint_id: 'ep-x', pooled: false });
    assert.deepEqual(route('localhost', 'ep-x'), { endpoint_id: 'ep-x', pooled: false });
    assert.deepEqual(route('EP-X.localhost', 'Ep-x'), { endpoint_id: 'ep-x', pooled: false });
  });
  it('is pooled when either name says so', () => {
    for (const [host, option] of [
      ['ep-x-pooler', 'ep-x'],
      ['ep-x', 'ep-x-pooler'],
      ['ep-x-pooler', undefined],
    ]) {
      assert.deepEqual(route(`${host}.localhost`, option), { endpoint_id: 'ep-x', pooled: true });
    }
    assert.deepEqual(parseEndpointName('-pooler'), { endpoint_id: '-pooler', pooled: false });
  });
  it('is open when neither names one, and for hosts that serve HTTP', () => {
    assert.equal(route(), undefined);
    assert.equal(route('api.localhost'), undefined);
    assert.deepEqual(route('apiauth.localhost', 'ep-x'), { endpoint_id: 'ep-x', pooled: false });
  });
  it('is refused when the names differ or have other characters', () => {
    assert.throws(() => route('ep-x.localhost', 'ep-y'), Refusal);
    for (const option of ['', 'ep_x', 'ep.x', 'ép', 'ep x', "ep'"])
      assert.throws(() => route(undefined, option), Refusal);
  });
});

describe('what to do after a failed attempt', () => {
  const server = (code: string) => new ComputeRefusal({ severity: 'FATAL', code, message: '' }, Buffer.alloc(0));
  const io = (code: string) => Object.assign(new Error(code), { code });
  const moves: [string, unknown, string][] = [
    ['nothing listens', io('ECONNREFUSED'), 'wake'],
    ['no socket', io('ENOENT'), 'wake'],
    ['reset', io('ECONNRESET'), 'wake'],
    ['closed during the login', new ComputeGone(), 'wake'],
    ['starting up or shutting down', server('57P03'), 'wake'],
    ['ended by a shutdown', server('57P01'), 'wake'],
    ['ended by a crash', server('57P02'), 'wake'],
    ['queue full', io('EAGAIN'), 'retry'],
    ['slow', io('ETIMEDOUT'), 'retry'],
    ['too many connections', server('53300'), 'fail'],
    ['out of memory', server('53200'), 'fail'],
    ['wrong password', server('28P01'), 'fail'],
    ['no such database', server('3D000'), 'fail'],
    ['bad parameter', server('22023'), 'fail'],
    ['no files left here', io('EMFILE'), 'fail'],
    ['our own refusal', refusals.insecure(), 'fail'],
    ['a bug', new TypeError('x'), 'fail'],
    ['nothing', undefined, 'fail'],
  ];
  for (const [name, error, move] of moves) it(`${name}: ${move}`, () => assert.equal(nextMove(error), move));

  it('is done at once after the first wake, and then ever more slowly, up to a bound', () => {
    assert.deepEqual([0, 1, 2, 3, 4].map(pauseMs), [0, 0, 10, 20, 40]);
    assert.equal(pauseMs(50), 1000);
  });
});
