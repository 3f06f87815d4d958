import assert from 'node:assert/strict';
import { createHmac, randomBytes } from 'node:crypto';
import { describe, it } from 'node:test';
import { createVerifier } from '../../src/domain/scram-verifier.ts';
import { keysFromPassword } from '../../src/wire/cleartext-password.ts';
import { ProtocolError } from '../../src/wire/message.ts';
import { hmac, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, type ScramKeys } from '../../src/wire/scram.ts';
import { scramClient } from '../../src/wire/scram-client.ts';
import { mockVerifier, scramMechanisms, startScram } from '../../src/wire/scram-server.ts';
import { seededRandom, testSeed } from '../support/random.ts';

// RFC 7677, section 3.
const RFC = {
  salt: Buffer.from('W22ZaJ0SNY7soEsUEjb6gQ==', 'base64'),
  clientNonce: 'rOprNGfwEbeRWgbNEkqO',
  serverNonce: '%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0',
  clientFirst: 'n,,n=user,r=rOprNGfwEbeRWgbNEkqO',
  serverFirst: 'r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096',
  clientFinal:
    'c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=',
  serverFinal: 'v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=',
};
const verifier = await createVerifier('pencil', { salt: RFC.salt });
const plain = { mechanism: SCRAM_SHA_256, verifier, channelBinding: undefined };

describe('the keyed hash', () => {
  it('is that of the library, for keys of all lengths and for texts and bytes', () => {
    for (let bytes = 0; bytes <= 64; bytes++) {
      const key = randomBytes(bytes);
      for (const text of ['', 'Client Key', 'prüfung', randomBytes(3 * bytes)]) {
        assert.deepEqual(hmac(key, text), createHmac('sha256', key).update(text).digest());
      }
    }
    assert.throws(() => hmac(randomBytes(65), ''), RangeError);
  });
});

describe('the server side of SCRAM', () => {
  it('gives the known answers and wins keys that fit the verifier', async () => {
    const exchange = startScram(RFC.clientFirst, { ...plain, nonce: RFC.serverNonce });
    assert.equal(exchange.serverFirst, RFC.serverFirst);
    const outcome = exchange.finish(RFC.clientFinal);
    assert.equal(outcome?.serverFinal, RFC.serverFinal);
    assert.deepEqual(outcome.keys, await keysFromPassword('pencil', verifier));
  });

  it('finds a wrong proof wrong', async () => {
    const other = await createVerifier('pen', { salt: RFC.salt });
    const exchange = startScram(RFC.clientFirst, { ...plain, verifier: other, nonce: RFC.serverNonce });
    assert.equal(exchange.finish(RFC.clientFinal), undefined);
  });

  it('refuses malformed first messages', () => {
    const bad = [
      '',
      'n,,',
      'n,,n=,r=',
      'n,,n=user',
      'x,,n=,r=abc',
      'n,a=me,n=,r=abc',
      'n,,m=ext,n=,r=abc',
      'n=x,,n=,r=abc',
      'p=tls-server-end-point,,n=,r=abc',
      'n,,n=,r=a\nb',
    ];
    for (const text of bad) assert.throws(() => startScram(text, plain), ProtocolError, JSON.stringify(text));
  });

  it('refuses malformed final messages', () => {
    const bad = [
      '',
      'c=biws',
      RFC.clientFinal.replace('c=biws', 'c=eSws'),
      RFC.clientFinal.replace('r=rOpr', 'r=xOpr'),
      RFC.clientFinal.replace('p=dHzb', 'p='),
      RFC.clientFinal.replace(/,p=.*/, ''),
      `${RFC.clientFinal},x=y`,
    ];
    for (const text of bad) {
      const exchange = startScram(RFC.clientFirst, { ...plain, nonce: RFC.serverNonce });
      assert.throws(() => exchange.finish(text), ProtocolError, text);
    }
  });
});

describe('channel binding', () => {
  const channelBinding = Buffer.alloc(32, 7);
  const bound = { mechanism: SCRAM_SHA_256_PLUS, verifier, channelBinding };

  /** What a client sends that binds to `hash`. */
  function boundFinal(serverFirst: string, keys: ScramKeys, hash: Buffer): string {
    const header = 'p=tls-server-end-point,,';
    const binding = Buffer.concat([Buffer.from(header), hash]).toString('base64');
    // The keys-only client does not bind, so its messages are rewritten and its proof made over ours.
    const client = scramClient(keys, { nonce: 'abc' });
    const unbound = client.respond(serverFirst);
    return unbound.replace('c=biws', `c=${binding}`);
  }

  it('is offered first, where there is a certificate', () => {
    assert.deepEqual(scramMechanisms(channelBinding), [SCRAM_SHA_256_PLUS, SCRAM_SHA_256]);
    assert.deepEqual(scramMechanisms(undefined), [SCRAM_SHA_256]);
  });

  it('fails for the hash of another certificate', async () => {
    const keys = await keysFromPassword('pencil', verifier);
    const exchange = startScram('p=tls-server-end-point,,n=,r=abc', bound);
    const final = boundFinal(exchange.serverFirst, keys!, Buffer.alloc(32, 8));
    assert.throws(() => exchange.finish(final), { code: '28000', message: /channel binding check failed/ });
  });

  it('takes the right hash, and then judges the proof', async () => {
    const keys = await keysFromPassword('pencil', verifier);
    const exchange = startScram('p=tls-server-end-point,,n=,r=abc', bound);
    // The proof covers the binding; this one was made without it.
    assert.equal(exchange.finish(boundFinal(exchange.serverFirst, keys!, channelBinding)), undefined);
  });

  it('cannot be negotiated away', () => {
    const unbound = { ...bound, mechanism: SCRAM_SHA_256 };
    assert.throws(() => startScram('y,,n=,r=abc', unbound), { code: '28000' });
    assert.doesNotThrow(() => startScram('n,,n=,r=abc', unbound));
    assert.doesNotThrow(() => startScram('y,,n=,r=abc', plain));
    assert.throws(() => startScram('n,,n=,r=abc', bound), ProtocolError);
    assert.throws(() => startScram('p=tls-unique,,n=,r=abc', bound), ProtocolError);
    assert.throws(() => startScram('n,,n=,r=abc', { ...plain, mechanism: 'GSSAPI' }), ProtocolError);
    assert.throws(
      () => startScram('p=tls-server-end-point,,n=,r=abc', { ...bound, channelBinding: undefined }),
      ProtocolError,
    );
  });
});

describe('the client side of SCRAM', () => {
  it('gives the known answer with the keys alone', async () => {
    const keys = await keysFromPassword('pencil', verifier);
    const client = scramClient(keys!, { username: 'user', nonce: RFC.clientNonce });
    assert.equal(client.clientFirst, RFC.clientFirst);
    assert.equal(client.respond(RFC.serverFirst), RFC.clientFinal);
    client.verify(RFC.serverFinal);
  });

  it('believes no server that does not know the verifier', async () => {
    const keys = await keysFromPassword('pencil', verifier);
    const client = scramClient(keys!, { username: 'user', nonce: RFC.clientNonce });
    client.respond(RFC.serverFirst);
    assert.throws(() => client.verify(`v=${Buffer.alloc(32).toString('base64')}`), /server signature/);
    assert.throws(() => client.verify('e=other-error'), /server signature/);
    for (const challenge of ['', RFC.serverFirst.replace('rOpr', 'xOpr'), 'r=rOprNGfwEbeRWgbNEkqO,s=YQ==,i=1']) {
      assert.throws(() => client.respond(challenge), ProtocolError, challenge);
    }
  });

  it('logs in to a server that only holds the verifier, whatever the nonces', async () => {
    const keys = await keysFromPassword('pencil', verifier);
    const client = scramClient(keys!);
    const exchange = startScram(client.clientFirst, plain);
    const outcome = exchange.finish(client.respond(exchange.serverFirst));
    assert.deepEqual(outcome?.keys, keys);
    client.verify(outcome!.serverFinal);
  });
});

describe('a mocked verifier', () => {
  const secret = Buffer.alloc(32, 1);
  it('is the same each time, other for each role and endpoint, and looks like a real one', () => {
    const mocked = mockVerifier(secret, 'ep-x', 'anna');
    assert.deepEqual(mockVerifier(secret, 'ep-x', 'anna'), mocked);
    assert.notDeepEqual(mockVerifier(secret, 'ep-x', 'bert').salt, mocked.salt);
    assert.notDeepEqual(mockVerifier(secret, 'ep-xa', 'nna').salt, mocked.salt);
    assert.equal(mocked.salt.length, 16);
    assert.equal(mocked.iterations, 4096);
  });
});

describe('SCRAM under mutation', () => {
  it('never lets a changed message in', async (context) => {
    const seed = testSeed();
    context.diagnostic(`seed ${seed}`);
    const random = seededRandom(seed);
    for (let round = 0; round < 5000; round++) {
      const mutate = (text: string) => {
        const bytes = Buffer.from(text);
        bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 128);
        return bytes.toString();
      };
      const first = round % 2 ? mutate(RFC.clientFirst) : RFC.clientFirst;
      const final = round % 2 ? RFC.clientFinal : mutate(RFC.clientFinal);
      try {
        const exchange = startScram(first, { ...plain, nonce: RFC.serverNonce });
        const won = exchange.finish(final) !== undefined;
        // Base64 has several spellings of its last characters; such a final message is the same one.
        const same = first === RFC.clientFirst && sameProof(final);
        assert.equal(won, same, `${first} / ${final}`);
      } catch (error) {
        assert.ok(error instanceof ProtocolError, String(error));
      }
    }
  });

  function sameProof(final: string): boolean {
    const [head, proof] = final.split(',p=');
    const [expectedHead, expectedProof] = RFC.clientFinal.split(',p=');
    return head === expectedHead && Buffer.from(proof ?? '', 'base64').equals(Buffer.from(expectedProof!, 'base64'));
  }
});
