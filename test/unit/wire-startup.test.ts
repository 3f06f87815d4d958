import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { cancelRequest, startupMessage } from '../../src/wire/frontend-messages.ts';
import { ProtocolError, takeMessage } from '../../src/wire/message.ts';
import { protocolVersion, takeFirstPacket } from '../../src/wire/startup.ts';
import { seededRandom, testSeed } from '../support/random.ts';

const LIMIT_BYTES = 10_000;

function packet(code: number, body: string | Buffer = ''): Buffer {
  const bytes = Buffer.from(body as string);
  const header = Buffer.alloc(8);
  header.writeInt32BE(8 + bytes.length);
  header.writeInt32BE(code, 4);
  return Buffer.concat([header, bytes]);
}

const take = (buffer: Buffer) => takeFirstPacket(buffer, LIMIT_BYTES);

describe('the first packet of a connection', () => {
  it('reads a startup packet in the order given, the last of a repeated name counting', () => {
    const taken = take(packet(protocolVersion(3, 0), 'user\0anna\0database\0a\0database\0b\0\0'));
    assert.equal(taken?.value.kind, 'startup');
    if (taken?.value.kind !== 'startup') return;
    assert.deepEqual(
      [...taken.value.parameters],
      [
        ['user', 'anna'],
        ['database', 'b'],
      ],
    );
    assert.equal(taken.value.negotiate, false);
  });

  it('reads what it builds', () => {
    const built = startupMessage([
      ['user', 'änne'],
      ['options', '-c a=b'],
    ]);
    const taken = take(built);
    assert.equal(taken?.bytes, built.length);
    assert.ok(taken.value.kind === 'startup');
    assert.deepEqual(
      [...taken.value.parameters],
      [
        ['user', 'änne'],
        ['options', '-c a=b'],
      ],
    );
  });

  it('speaks 3.2 where asked, and negotiates anything newer or with unknown protocol options', () => {
    const version = (code: number, body = 'user\0a\0\0') => {
      const taken = take(packet(code, body));
      assert.ok(taken?.value.kind === 'startup');
      return [taken.value.version, taken.value.negotiate, taken.value.unknown_options];
    };
    assert.deepEqual(version(protocolVersion(3, 2)), [protocolVersion(3, 2), false, []]);
    assert.deepEqual(version(protocolVersion(3, 9999)), [protocolVersion(3, 2), true, []]);
    assert.deepEqual(version(protocolVersion(3, 0), '_pq_.x\x001\0user\0a\0\0'), [
      protocolVersion(3, 0),
      true,
      ['_pq_.x'],
    ]);
  });

  it('tells requests for encryption and cancels apart', () => {
    assert.deepEqual(take(packet(80877103))?.value, { kind: 'ssl_request' });
    assert.deepEqual(take(packet(80877104))?.value, { kind: 'gss_request' });
    const key = { process_id: 77, secret: Buffer.from('a key of some length') };
    assert.deepEqual(take(cancelRequest(key))?.value, { kind: 'cancel', key });
  });

  it('leaves the bytes of a direct TLS handshake to TLS', () => {
    assert.deepEqual(take(Buffer.from([0x16, 3, 1])), { value: { kind: 'tls' }, bytes: 0 });
  });

  it('refuses an impossible length before collecting anything', () => {
    for (const length of [-1, 0, 7, LIMIT_BYTES + 1, 2 ** 30, 0x47455420]) {
      const word = Buffer.alloc(4);
      word.writeInt32BE(length | 0);
      assert.throws(() => take(word), ProtocolError, `length ${length}`);
    }
  });

  it('refuses what is malformed', () => {
    const bad: Record<string, Buffer> = {
      'version 2': packet(protocolVersion(2, 0), 'user\0a\0\0'),
      'no terminator': packet(protocolVersion(3, 0), 'user\0a\0'),
      'data after the terminator': packet(protocolVersion(3, 0), 'user\0a\0\0x'),
      'a name without a value': packet(protocolVersion(3, 0), 'user\0'),
      'invalid UTF-8': packet(protocolVersion(3, 0), Buffer.from('user\0\xff\0\0', 'latin1')),
      'a long SSLRequest': packet(80877103, 'x'),
      'a cancel without a secret': packet(80877102, Buffer.alloc(4)),
      'a cancel with an overlong secret': packet(80877102, Buffer.alloc(4 + 257)),
    };
    for (const [name, bytes] of Object.entries(bad)) assert.throws(() => take(bytes), ProtocolError, name);
  });

  it('waits at every byte boundary and then reads the same', () => {
    const whole = startupMessage([
      ['user', 'anna'],
      ['database', 'neondb'],
    ]);
    const expected = take(whole);
    for (let end = 0; end < whole.length; end++) assert.equal(take(whole.subarray(0, end)), undefined, `${end} bytes`);
    assert.deepEqual(take(Buffer.concat([whole, Buffer.from('more')])), expected);
  });

  it('never throws anything but a ProtocolError for mutated packets', (context) => {
    const seed = testSeed();
    context.diagnostic(`seed ${seed}`);
    const random = seededRandom(seed);
    const whole = startupMessage([
      ['user', 'anna'],
      ['options', 'endpoint=ep-x'],
      ['replication', 'database'],
    ]);
    for (let round = 0; round < 20_000; round++) {
      const bytes = Buffer.from(whole.subarray(0, 1 + Math.floor(random() * whole.length)));
      for (let flips = Math.floor(random() * 4); flips >= 0; flips--) {
        bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256);
      }
      try {
        const taken = take(bytes);
        assert.ok(taken === undefined || taken.bytes <= bytes.length);
      } catch (error) {
        assert.ok(error instanceof ProtocolError, `${String(error)} for ${bytes.toString('hex')}`);
      }
    }
  });
});

describe('a message', () => {
  it('is taken whole and leaves the rest', () => {
    const bytes = Buffer.from('51000000067100ff', 'hex');
    const taken = takeMessage(bytes, 100);
    assert.equal(taken?.bytes, 7);
    assert.equal(taken.value.type, 0x51);
    assert.deepEqual(taken.value.body, Buffer.from('q\0'));
    for (let end = 0; end < 7; end++) assert.equal(takeMessage(bytes.subarray(0, end), 100), undefined);
  });

  it('is refused by its length word alone', () => {
    for (const hex of ['7000000003', '7040000000', '70ffffffff', '7000000065']) {
      assert.throws(() => takeMessage(Buffer.from(hex, 'hex'), 100), ProtocolError, hex);
    }
  });
});
