import assert from 'node:assert/strict';
import { describe, it, mock } from 'node:test';
import { LIMITS } from '../../src/domain/limits.ts';
import { tokenBuckets } from '../../src/domain/token-buckets.ts';
import { LoginGuard } from '../../src/gateway/login-guard.ts';
import { refusals } from '../../src/gateway/refusal.ts';

describe('buckets of tokens', () => {
  it('give their burst at once, and then as many as time brings', () => {
    let now_ms = 1000;
    const clock = mock.method(performance, 'now', () => now_ms);
    try {
      const buckets = tokenBuckets({ burst: 3, per_second: 2 }, 10);
      const take = () => [1, 2, 3, 4].map(() => buckets.take('one'));
      assert.deepEqual(take(), [true, true, true, false]);
      assert.equal(buckets.has('one'), false);
      assert.equal(buckets.has('another'), true);
      now_ms += 500;
      assert.deepEqual(take(), [true, false, false, false]);
      now_ms += 3_600_000;
      assert.deepEqual(take(), [true, true, true, false]);
    } finally {
      clock.mock.restore();
    }
  });

  it('keep no more names than they may, the last used ones', () => {
    const buckets = tokenBuckets({ burst: 1, per_second: 0 }, 100);
    buckets.take('kept');
    for (let name = 0; name < 10_000; name++) {
      buckets.take(`${name}`);
      assert.equal(buckets.take('kept'), false);
    }
    assert.equal(buckets.size, 100);
    assert.equal(buckets.has('0'), true);
  });
});

describe('the guard at the door', () => {
  it('counts addresses of one IPv6 network together', async () => {
    const guard = new LoginGuard({
      ...LIMITS,
      connections_per_address_burst: 2,
      connections_per_address_per_second: 0,
    });
    guard.connect('[2001:db8:1:2::1]:1');
    guard.connect('[2001:db8:1:2:ffff:ffff:ffff:ffff]:2');
    assert.throws(() => guard.connect('[2001:db8:1:2:0:1::]:3'), refusals.tooManyFromAddress());
    guard.connect('[2001:db8:1:3::1]:1');
    guard.connect('[::1]:1');
    guard.connect('[::ffff:127.0.0.1]:1');
    guard.connect('127.0.0.1:2');
    assert.throws(() => guard.connect('127.0.0.1:3'), refusals.tooManyFromAddress());
  });
});
