import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FrameWalker } from '../../src/wire/frame-walker.ts';
import { query } from '../../src/wire/frontend-messages.ts';
import { message } from '../../src/wire/message.ts';
import { seededRandom, testSeed } from '../support/random.ts';

/** Walks chunks as a forwarder does; gives the types seen and what was passed on. Messages of a type may be wanted whole. */
function walk(chunks: readonly Buffer[], whole = ''): { types: string; passed: Buffer } {
  const walker = new FrameWalker();
  let types = '';
  const passed: Buffer[] = [];
  for (const chunk of chunks) {
    if (!walker.feed(chunk)) continue;
    while (walker.next()) {
      const letter = String.fromCharCode(walker.type);
      if (whole.includes(letter) && !walker.complete) {
        walker.hold(walker.current_bytes);
        break;
      }
      types += letter;
    }
    passed.push(Buffer.from(walker.bytes.subarray(0, walker.limit)));
    // The memory of a chunk is used again by whoever read it.
    chunk.fill(0xff);
  }
  assert.ok(walker.between);
  return { types, passed: Buffer.concat(passed) };
}

const CONVERSATION: readonly Buffer[] = [
  query('SELECT 1'),
  message('S', Buffer.alloc(0)),
  message('d', Buffer.alloc(300, 'x')),
  message('c', Buffer.alloc(0)),
  message('P', Buffer.from('name\0SELECT $1\0\0\0')),
  message('Z', Buffer.from('I')),
];
const BYTES = Buffer.concat(CONVERSATION);
const TYPES = 'QSdcPZ';

function split(bytes: Buffer, at: readonly number[]): Buffer[] {
  const ends = [...at, bytes.length];
  return ends.map((end, index) => Buffer.from(bytes.subarray(ends[index - 1] ?? 0, end)));
}

describe('walking frames', () => {
  for (const whole of ['', 'P', 'QPd']) {
    it(`sees every message once wherever one split is, holding ${whole || 'none'}`, () => {
      for (let at = 0; at <= BYTES.length; at++) {
        const { types, passed } = walk(split(BYTES, [at]), whole);
        assert.equal(types, TYPES, `split at ${at}`);
        assert.ok(passed.equals(BYTES), `split at ${at}`);
      }
    });

    it(`sees every message once in chunks of any sizes, holding ${whole || 'none'}`, (t) => {
      const seed = testSeed();
      t.diagnostic(`seed ${seed}`);
      const random = seededRandom(seed);
      for (let round = 0; round < 500; round++) {
        const cuts = Array.from({ length: Math.floor(random() * 40) }, () => Math.floor(random() * BYTES.length));
        const { types, passed } = walk(
          split(
            BYTES,
            cuts.sort((a, b) => a - b),
          ),
          whole,
        );
        assert.equal(types, TYPES);
        assert.ok(passed.equals(BYTES));
      }
    });
  }

  it('gives a message back to be fed again', () => {
    const walker = new FrameWalker();
    walker.feed(BYTES.subarray(0, 20));
    assert.ok(walker.next() && walker.next());
    const rest = Buffer.from(walker.giveBack());
    assert.equal(walker.limit, CONVERSATION[0]!.length);
    walker.feed(Buffer.concat([rest, BYTES.subarray(20)]));
    let types = '';
    while (walker.next()) types += String.fromCharCode(walker.type);
    assert.equal(types, TYPES.slice(1));
  });

  it('refuses lengths that cannot be', () => {
    for (const length of [0, 3, -1]) {
      const bad = Buffer.from('Q\0\0\0\0');
      bad.writeInt32BE(length, 1);
      const walker = new FrameWalker();
      walker.feed(bad);
      assert.throws(() => walker.next(), { code: '08P01' });
    }
  });
});
