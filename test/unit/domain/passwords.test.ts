import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CoppiceError } from '../../../src/domain/errors.ts';
import { LIMITS } from '../../../src/domain/limits.ts';
import { hashPassword, isPassword } from '../../../src/domain/passwords.ts';

describe('passwords', () => {
  it('are kept as hashes that differ each time, and know the password alone', async () => {
    const [one, other] = [await hashPassword('correct horse'), await hashPassword('correct horse')];
    assert.notEqual(one, other);
    assert.match(one, /^scrypt\$32768\$8\$3\$[\w+/=]{24}\$[\w+/=]{44}$/);
    assert.equal(await isPassword('correct horse', one), true);
    assert.equal(await isPassword('correct house', one), false);
    for (const broken of ['', 'correct horse', 'md5$x', one.slice(0, -44)]) {
      assert.equal(await isPassword('correct horse', broken), false, broken);
    }
  });

  it('are the same in whatever way a letter is written', async () => {
    const composed = 'caf\u00e9 au lait!';
    assert.equal(await isPassword(composed.normalize('NFD'), await hashPassword(composed)), true);
  });

  it('are hashed a few at a time, and beyond a bound not at all', async () => {
    const asked = Array.from({ length: LIMITS.passwords_waiting + 10 }, () =>
      hashPassword('correct horse').catch((error) => error),
    );
    // Those beyond are refused at once, before the others are done.
    const refusal = await Promise.race(asked.slice(-1));
    assert.ok(refusal instanceof CoppiceError && refusal.kind === 'unavailable');
    const results = await Promise.all(asked);
    assert.equal(results.filter((result) => typeof result === 'string').length, LIMITS.passwords_waiting + 2);
    assert.match(await hashPassword('correct horse'), /^scrypt/);
  });
});
