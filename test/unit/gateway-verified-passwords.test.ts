import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createVerifier } from '../../src/domain/scram-verifier.ts';
import { VerifiedPasswords } from '../../src/gateway/verified-passwords.ts';
import { keysFromPassword } from '../../src/wire/cleartext-password.ts';
import { until } from '../support/until.ts';

const PASSWORD = 'npg_of-a-test';
const verifier = await createVerifier(PASSWORD);
const keys = await keysFromPassword(PASSWORD, verifier);

const passwords = ({ capacity = 10, lifetime_ms = 60_000 } = {}) => new VerifiedPasswords({ capacity, lifetime_ms });

describe('a password that was found right', () => {
  it('gives its keys again, and no other one does', async () => {
    const known = passwords();
    assert.equal(known.recall(PASSWORD, verifier), undefined);
    assert.deepEqual(await known.verify(PASSWORD, verifier), keys);
    assert.deepEqual(known.recall(PASSWORD, verifier), keys);
    assert.equal(known.recall(`${PASSWORD}!`, verifier), undefined);
  });

  it('is remembered in the form that fits', async () => {
    const prepared = await createVerifier('a b');
    const known = passwords();
    const spelt = 'a\u00a0b';
    assert.ok(await known.verify(spelt, prepared));
    assert.ok(known.recall(spelt, prepared));
  });

  it('is another one once it was set again', async () => {
    const known = passwords();
    await known.verify(PASSWORD, verifier);
    assert.equal(known.recall(PASSWORD, await createVerifier(PASSWORD)), undefined);
  });

  it('is forgotten after a while, and when there are too many', async () => {
    const brief = passwords({ lifetime_ms: 1 });
    await brief.verify(PASSWORD, verifier);
    await until(() => brief.recall(PASSWORD, verifier) === undefined, { what: 'the password to be forgotten' });
    const few = passwords({ capacity: 1 });
    await few.verify(PASSWORD, verifier);
    const other = await createVerifier('other');
    await few.verify('other', other);
    assert.equal(few.recall(PASSWORD, verifier), undefined);
    assert.ok(few.recall('other', other));
  });

  it('is not remembered where all rounds are computed anyway', async () => {
    const cheap = await createVerifier(PASSWORD, { iterations: 16 });
    const known = passwords();
    assert.ok(await known.verify(PASSWORD, cheap));
    assert.equal(known.recall(PASSWORD, cheap), undefined);
  });
});

describe('a password that is wrong', () => {
  it('is not remembered', async () => {
    const known = passwords();
    assert.equal(await known.verify('wrong', verifier), undefined);
    assert.equal(known.recall('wrong', verifier), undefined);
  });
});
