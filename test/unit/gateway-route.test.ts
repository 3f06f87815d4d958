import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ComputeRefusal, Refusal, refusals } from '../../src/gateway/refusal.ts';
import { ComputeGone, nextMove, pauseMs } from '../../src/gateway/retry.ts';
import { chooseRoute, hostLabel, namedRoute, readPoint } from '../../src/gateway/route.ts';

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
    assert.deepEqual(namedRoute('-pooler'), { endpoint_id: '-pooler', pooled: false });
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

describe('the route to a branch', () => {
  const point = { kind: 'lsn', text: '0/1' } as const;
  const past = (servername?: string, option?: string) => chooseRoute({ servername, option, point }, 'localhost');
  it('takes a point with it, however the branch is named', () => {
    assert.deepEqual(past('br-x.localhost'), { branch_id: 'br-x', point, pooled: false });
    assert.deepEqual(past('BR-X-pooler.localhost', 'br-x'), { branch_id: 'br-x', point, pooled: true });
    assert.deepEqual(namedRoute('br-x', point), { branch_id: 'br-x', point, pooled: false });
    assert.equal(past(), undefined, 'the password may name it');
  });
  it('is refused without a point, and an endpoint with one', () => {
    const code = '08004';
    assert.throws(() => chooseRoute({ servername: 'br-x.localhost' }, 'localhost'), { code, message: /is a branch/ });
    assert.throws(() => namedRoute('br-x'), { code, message: /is a branch/ });
    assert.throws(() => past('ep-x.localhost'), { code, message: /is an endpoint/ });
    assert.throws(() => past(undefined, 'ep-x'), { code, message: /is an endpoint/ });
    assert.throws(() => namedRoute('ep-x', point), { code, message: /is an endpoint/ });
  });
});

describe('the point among the options for the platform', () => {
  it('is a time or a position, as it was written', () => {
    assert.deepEqual(readPoint([['lsn', '0/1']]), { kind: 'lsn', text: '0/1' });
    assert.deepEqual(readPoint([['timestamp', 'x']]), { kind: 'timestamp', text: 'x' });
    assert.equal(readPoint([]), undefined);
    assert.equal(readPoint([['proxy_params_compat', 'true']]), undefined);
  });
  it('is refused when there are two, and so is what nobody knows', () => {
    const both = [
      ['lsn', '0/1'],
      ['timestamp', 'x'],
    ] as const;
    assert.throws(() => readPoint(both), { code: '22023', message: /one of neon_timestamp and neon_lsn/ });
    assert.throws(() => readPoint([['endpoint_type', 'read_only']]), { code: '22023', message: /neon_endpoint_type/ });
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
