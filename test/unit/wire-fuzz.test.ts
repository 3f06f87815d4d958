import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { before, describe, it } from 'node:test';
import { parseBackendKeyData, parseErrorFields } from '../../src/wire/backend-messages.ts';
import { parseCommandTag, parseRowDescription } from '../../src/wire/extended-query.ts';
import { FrameWalker } from '../../src/wire/frame-walker.ts';
import { parsePassword, parseSaslInitialResponse } from '../../src/wire/frontend-messages.ts';
import { type Message, ProtocolError, takeMessage } from '../../src/wire/message.ts';
import { ReplicationFilter } from '../../src/wire/replication-filter.ts';
import { takeFirstPacket } from '../../src/wire/startup.ts';
import { parseStartupOptions } from '../../src/wire/startup-options.ts';
import { bodyStart, stringEnd } from '../../src/wire/statement-messages.ts';
import { seededRandom, testSeed } from '../support/random.ts';

/** Messages that are read; `COPPICE_TEST_LONG=1` reads a million. */
const MESSAGES = process.env.COPPICE_TEST_LONG === '1' ? 1_000_000 : 30_000;
const LIMIT_BYTES = 10_000;
/** A query is held back until its first word and more of it can be judged. */
const FILTER_HOLDS_BYTES = 16 * 1024 + 5;
/** Types that a reader wants whole; their length is bounded before. */
const WHOLE = new Set([...'PBCDp'].map((letter) => letter.charCodeAt(0)));

/** What real clients and the gateway said to each other, from the first byte to the last. */
interface Conversation {
  readonly name: string;
  readonly client: Buffer;
  readonly server: Buffer;
}

let conversations: readonly Conversation[];
before(async () => {
  const text = await readFile(new URL('./recorded-conversations.json', import.meta.url), 'utf8');
  conversations = (JSON.parse(text) as Record<keyof Conversation, string>[]).map(({ name, client, server }) => ({
    name,
    client: Buffer.from(client, 'base64'),
    server: Buffer.from(server, 'base64'),
  }));
});

/** What a reader made of bytes: what was seen, what was passed on, and how it ended. */
interface Reading {
  readonly seen: string[];
  readonly passed: Buffer;
  readonly broken: string | undefined;
}

/** Breaking the protocol is the only thing that may go wrong. */
function orBroken(read: () => void): string | undefined {
  try {
    read();
    return undefined;
  } catch (error) {
    if (error instanceof ProtocolError) return error.message;
    throw error;
  }
}

/** Walks one direction as the pool does, holding back what it wants to see whole. */
function walk(chunks: readonly Buffer[]): Reading {
  const walker = new FrameWalker();
  const seen: string[] = [];
  const passed: Buffer[] = [];
  const broken = orBroken(() => {
    for (const chunk of chunks) {
      if (!walker.feed(chunk)) continue;
      while (walker.next()) {
        const { type, offset, end, bytes } = walker;
        if (WHOLE.has(type) && !walker.complete) {
          if (walker.current_bytes > LIMIT_BYTES) throw new ProtocolError('too long');
          walker.hold(walker.current_bytes);
          break;
        }
        seen.push(`${String.fromCharCode(type)} ${walker.current_bytes}`);
        if (walker.complete)
          readBody({ type, body: bytes.subarray(bodyStart(offset), end), raw: bytes.subarray(offset, end) });
      }
      passed.push(Buffer.from(walker.bytes.subarray(0, walker.limit)));
    }
  });
  return { seen, passed: Buffer.concat(passed), broken };
}

/** Reads a body as whoever it may concern does, on either side. */
function readBody(message: Message): void {
  const { type, body, raw } = message;
  const letter = String.fromCharCode(type);
  orBroken(() => {
    if (letter === 'p') parsePassword(message);
  });
  orBroken(() => {
    if (letter === 'p') parseSaslInitialResponse(message);
    if (letter === 'K') parseBackendKeyData(message);
    if (letter === 'E' || letter === 'N') parseErrorFields(body);
    if (letter === 'T') parseRowDescription(body);
    if (letter === 'C') parseCommandTag(body);
    if ('PBCD'.includes(letter)) {
      const end = stringEnd(raw, bodyStart(0), raw.length);
      assert.ok(end === -1 || raw[end] === 0);
    }
  });
}

/** Reads the client's side as a session that is being opened, then as one of logical replication. */
function open(chunks: readonly Buffer[]): { passed: number; broken: string | undefined } {
  const filter = new ReplicationFilter();
  let waiting: Buffer = Buffer.alloc(0);
  let started = false;
  let passed = 0;
  const broken = orBroken(() => {
    for (const chunk of chunks) {
      if (started) {
        const out = filter.push(chunk);
        passed += out.length;
        // What it puts in place of a query is short; beyond that nothing comes that was not given.
        assert.ok(out.length <= chunk.length + FILTER_HOLDS_BYTES + 1000, `${out.length} bytes for ${chunk.length}`);
        continue;
      }
      waiting = Buffer.concat([waiting, chunk]);
      const taken = takeFirstPacket(waiting, LIMIT_BYTES);
      if (!taken) {
        assert.ok(waiting.length <= LIMIT_BYTES + 4, 'more is collected than a start-up packet may have');
        continue;
      }
      if (taken.value.kind === 'startup') {
        orBroken(() =>
          parseStartupOptions(
            new Map(taken.value.kind === 'startup' ? taken.value.parameters : []).get('options') ?? '',
          ),
        );
      }
      started = true;
      const rest = waiting.subarray(taken.bytes);
      passed += filter.push(rest).length;
    }
  });
  return { passed, broken };
}

const splitAt = (bytes: Buffer, cuts: readonly number[]): Buffer[] => {
  const ends = [...cuts, bytes.length];
  return ends.map((end, index) => Buffer.from(bytes.subarray(ends[index - 1] ?? 0, end)));
};

/** Behind the start-up packet, which has no type. */
function typed(client: Buffer): Buffer {
  const first = takeFirstPacket(client, LIMIT_BYTES)!;
  return client.subarray(first.bytes);
}

/** Every message of a direction. Throws for what is none. */
function messages(bytes: Buffer): Message[] {
  const found: Message[] = [];
  for (let rest = bytes; rest.length > 0; ) {
    const { value, bytes: taken } = takeMessage(rest, LIMIT_BYTES)!;
    found.push(value);
    rest = rest.subarray(taken);
  }
  return found;
}

describe('recorded conversations', () => {
  it('read the same wherever one split is', () => {
    for (const { name, client, server } of conversations) {
      for (const side of [typed(client), server]) {
        const whole = walk([Buffer.from(side)]);
        assert.equal(whole.broken, undefined, name);
        assert.equal(whole.seen.length, messages(side).length, name);
        for (let at = 0; at <= side.length; at += 1)
          assert.deepEqual(walk(splitAt(side, [at])), whole, `${name} at ${at}`);
      }
      const begun = open([client]);
      for (let at = 0; at <= client.length; at += 1)
        assert.deepEqual(open(splitAt(client, [at])), begun, `${name} at ${at}`);
    }
  });

  it('read the same byte by byte', () => {
    for (const { client, server } of conversations) {
      for (const side of [typed(client), server]) {
        const bytes = Array.from(side, (byte) => Buffer.from([byte]));
        assert.deepEqual(walk(bytes), walk([Buffer.from(side)]));
      }
    }
  });
});

describe('conversations with anything changed in them', () => {
  it('end with an error for the peer, or pass through whole, however they come', (t) => {
    const seed = testSeed();
    t.diagnostic(`seed ${seed}`);
    const random = seededRandom(seed);
    const upTo = (bound: number) => Math.floor(random() * bound);
    let read = 0;
    let broken = 0;
    for (let round = 0; read < MESSAGES; round += 1) {
      const { client, server } = conversations[upTo(conversations.length)]!;
      const opening = round % 2 === 0;
      const original = opening ? client : random() < 0.5 ? server : typed(client);
      const changed = change(original, upTo);
      const chunks = splitAt(changed, cuts(changed.length, upTo));
      if (opening) {
        const { broken: reason } = open(chunks);
        if (reason !== undefined) broken += 1;
        // Counted by what went in.
        read += 1;
        continue;
      }
      const reading = walk(chunks);
      read += reading.seen.length;
      if (reading.broken !== undefined) broken += 1;
      const once = walk([Buffer.from(changed)]);
      assert.equal(reading.broken, once.broken);
      assert.deepEqual(reading.seen, once.seen);
      // Nothing is lost, repeated or made up; what is held back is the start of one message.
      assert.ok(changed.subarray(0, reading.passed.length).equals(reading.passed));
      if (reading.broken === undefined) {
        const held = changed.length - reading.passed.length;
        assert.ok(held <= LIMIT_BYTES, `${held} bytes are held back`);
      }
    }
    assert.ok(broken > 0);
    t.diagnostic(`${read} messages read, ${broken} conversations broken`);
  });
});

type UpTo = (bound: number) => number;

/** Up to four changes: bytes, lengths, what is left out, said twice, or put in. */
function change(original: Buffer, upTo: UpTo): Buffer {
  let bytes = Buffer.from(original);
  for (let changes = upTo(5); changes > 0; changes -= 1) {
    const at = upTo(bytes.length);
    const some = bytes.subarray(at, at + upTo(40));
    const kind = upTo(5);
    if (kind === 0) bytes[at] = upTo(256);
    else if (kind === 1 && at + 4 <= bytes.length)
      bytes.writeInt32BE([0, -1, 3, 4, 5, 2 ** 31 - 1, upTo(20_000)][upTo(7)]!, at);
    else if (kind === 2) bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + some.length)]);
    else if (kind === 3) bytes = Buffer.concat([bytes.subarray(0, at), some, bytes.subarray(at)]);
    else
      bytes = Buffer.concat([
        bytes.subarray(0, at),
        Buffer.from(Array.from({ length: upTo(10) }, () => upTo(256))),
        bytes.subarray(at),
      ]);
  }
  return bytes;
}

function cuts(length: number, upTo: UpTo): number[] {
  return Array.from({ length: upTo(12) }, () => upTo(length + 1)).sort((a, b) => a - b);
}
