import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { query } from '../../src/wire/frontend-messages.ts';
import { message, ProtocolError, takeMessage } from '../../src/wire/message.ts';
import { judgeReplicationQuery, parseReplication } from '../../src/wire/replication.ts';
import { ReplicationFilter } from '../../src/wire/replication-filter.ts';
import { seededRandom, testSeed } from '../support/random.ts';

describe('the replication parameter', () => {
  const cases: Record<string, string[]> = {
    logical: ['database'],
    physical: ['true', 'TRUE', 't', 'tr', 'tru', 'y', 'ye', 'yes', 'YES', 'on', 'ON', '1'],
    none: ['false', 'f', 'fal', 'n', 'no', 'off', 'of', 'OFF', '0'],
  };
  for (const [mode, values] of Object.entries(cases)) {
    for (const value of values) it(`${value} is ${mode}`, () => assert.equal(parseReplication(value), mode));
  }
  it('may be absent', () => assert.equal(parseReplication(undefined), 'none'));
  for (const value of ['', 'Database', 'DATABASE', 'o', ' on', 'on ', '2', 'truex', 'yes\n']) {
    it(`${JSON.stringify(value)} is invalid`, () => assert.throws(() => parseReplication(value), { code: '22023' }));
  }
});

const PASSED = [
  'SELECT 1',
  'select pg_create_logical_replication_slot($$a$$, $$pgoutput$$)',
  '',
  ' ',
  ';',
  "('x')",
  'BEGIN; SELECT 1; COMMIT',
  'SELECT 1; BASE_BACKUP',
  '/* c */ BASE_BACKUP',
  '-- c\nBASE_BACKUP',
  '"BASE_BACKUP"',
  'BASE_BACKUP\u00e9',
  'BASEBACKUP',
  'IDENTIFY_SYSTEM',
  'identify_system;',
  '\t\n IDENTIFY_SYSTEM',
  'SHOW wal_level',
  'SHOW"x"',
  'TIMELINE_HISTORY 1',
  'CREATE_REPLICATION_SLOT s LOGICAL pgoutput',
  'create_replication_slot "s" logical pgoutput (SNAPSHOT \'nothing\')',
  'CREATE_REPLICATION_SLOT s TEMPORARY LOGICAL pgoutput',
  'CREATE_REPLICATION_SLOT "s LOGICAL" TEMPORARY LOGICAL "pgoutput"',
  'DROP_REPLICATION_SLOT s WAIT',
  'ALTER_REPLICATION_SLOT s (FAILOVER)',
  'READ_REPLICATION_SLOT s',
  "START_REPLICATION SLOT s LOGICAL 0/0 (proto_version '1')",
  'START_REPLICATION SLOT "PHYSICAL" LOGICAL 0/0',
];

const REFUSED = [
  'BASE_BACKUP',
  'base_backup',
  " \t\r\n\f\vBASE_BACKUP (LABEL 'x')",
  'BASE_BACKUP;',
  "BASE_BACKUP(LABEL 'x')",
  'BASE_BACKUP/* c */',
  'BASE_BACKUP"x"',
  'UPLOAD_MANIFEST',
  'START_REPLICATION 0/0',
  'START_REPLICATION PHYSICAL 0/0',
  'START_REPLICATION SLOT s 0/0',
  'START_REPLICATION SLOT s PHYSICAL 0/0',
  'START_REPLICATION SLOT "LOGICAL" PHYSICAL 0/0',
  'START_REPLICATION SLOT "s"" LOGICAL" PHYSICAL 0/0',
  'START_REPLICATION SLOT "s LOGICAL 0/0" PHYSICAL 0/0',
  'START_REPLICATION SLOT "" PHYSICAL 0/0 LOGICAL',
  "START_REPLICATION SLOT 's' LOGICAL 0/0",
  'START_REPLICATION',
  'CREATE_REPLICATION_SLOT s PHYSICAL',
  'CREATE_REPLICATION_SLOT LOGICAL PHYSICAL',
  'CREATE_REPLICATION_SLOT s TEMPORARY PHYSICAL RESERVE_WAL',
  'CREATE_REPLICATION_SLOT "LOGICAL" PHYSICAL',
  'CREATE_REPLICATION_SLOT "s" TEMPORARY PHYSICAL LOGICAL',
  'SOME_FUTURE_COMMAND',
];

const latin1 = (text: string) => Buffer.from(text, 'utf8').toString('latin1');

describe('a query on a replication connection', () => {
  for (const text of PASSED) {
    it(`passes: ${JSON.stringify(text)}`, () => assert.equal(judgeReplicationQuery(latin1(text), true), 'pass'));
  }
  for (const text of REFUSED) {
    it(`is refused: ${JSON.stringify(text)}`, () => {
      assert.equal(typeof judgeReplicationQuery(latin1(text), true), 'object');
    });
  }
  it('is judged the same from any part of it that decides', () => {
    for (const text of [...PASSED, ...REFUSED].map(latin1)) {
      const expected = judgeReplicationQuery(text, true);
      for (let end = 0; end < text.length; end++) {
        const early = judgeReplicationQuery(text.slice(0, end), false);
        if (early !== 'undecided') assert.deepEqual(early, expected, `${text.slice(0, end)} of ${text}`);
      }
    }
  });
});

/** The queries of a byte stream, refusals shown by their message. */
function queriesIn(bytes: Buffer): string[] {
  const found: string[] = [];
  for (let rest = bytes; rest.length > 0; ) {
    const taken = takeMessage(rest, 2 ** 30)!;
    assert.ok(taken, 'whole messages only');
    const text = taken.value.body.toString('latin1');
    found.push(text.startsWith('DO LANGUAGE') ? `refused: ${/MESSAGE = '(.*?) is not/.exec(text)![1]}` : text);
    rest = rest.subarray(taken.bytes);
  }
  return found;
}

describe('the replication filter', () => {
  const stream = Buffer.concat([
    query('SELECT 1'),
    query('BASE_BACKUP'),
    message('d', Buffer.alloc(100, 65)),
    query("  base_backup (LABEL 'x')"),
    message('P', Buffer.from('\0BASE_BACKUP\0\0\0')),
    query('START_REPLICATION SLOT s LOGICAL 0/0'),
    query('START_REPLICATION 0/0'),
    message('X', Buffer.alloc(0)),
  ]);
  const expected = [
    'SELECT 1\0',
    'refused: BASE_BACKUP',
    'A'.repeat(100),
    'refused: BASE_BACKUP',
    '\0BASE_BACKUP\0\0\0',
    'START_REPLICATION SLOT s LOGICAL 0/0\0',
    'refused: physical START_REPLICATION',
    '',
  ];

  it('gives the same whatever the chunks: in one, byte by byte, and split at every boundary', () => {
    assert.deepEqual(queriesIn(new ReplicationFilter().push(stream)), expected);
    const byByte = new ReplicationFilter();
    assert.deepEqual(queriesIn(Buffer.concat([...stream].map((byte) => byByte.push(Buffer.from([byte]))))), expected);
    for (let at = 0; at <= stream.length; at++) {
      const filter = new ReplicationFilter();
      const forwarded = Buffer.concat([filter.push(stream.subarray(0, at)), filter.push(stream.subarray(at))]);
      assert.deepEqual(queriesIn(forwarded), expected, `split at ${at}`);
    }
  });

  it('passes long statements as they come and holds back only their start', () => {
    const filter = new ReplicationFilter();
    const long = query(`SELECT '${'x'.repeat(1_000_000)}'`);
    assert.equal(filter.push(long.subarray(0, 100_000)).length, 100_000);
    assert.equal(filter.push(long.subarray(100_000)).length, long.length - 100_000);
  });

  it('refuses what stays undecided for too long, and goes on behind it', () => {
    const filter = new ReplicationFilter();
    const blank = query(`${' '.repeat(40_000)}BASE_BACKUP`);
    const slot = query(`CREATE_REPLICATION_SLOT "${'s'.repeat(40_000)}" LOGICAL pgoutput`);
    const forwarded: Buffer[] = [];
    for (const bytes of [blank, slot, query('SELECT 2')]) {
      for (let at = 0; at < bytes.length; at += 1000) forwarded.push(filter.push(bytes.subarray(at, at + 1000)));
    }
    const refusal = 'refused: a replication command of this length';
    assert.deepEqual(queriesIn(Buffer.concat(forwarded)), [refusal, refusal, 'SELECT 2\0']);
  });

  it('keeps its refusal one statement whatever the word', () => {
    const [only, ...others] = queriesIn(new ReplicationFilter().push(query('A_$refusal$_B')));
    assert.deepEqual([only, others], ['refused: A_REFUSAL_B', []]);
  });

  it('gives up where the server would: at an impossible length', () => {
    assert.throws(() => new ReplicationFilter().push(Buffer.from('5100000003', 'hex')), ProtocolError);
  });

  it('keeps no reference to the memory of a chunk', () => {
    const filter = new ReplicationFilter();
    const bytes = query('BASE_BACKUP');
    const start = Buffer.from(bytes.subarray(0, 8));
    filter.push(start);
    start.fill(0);
    assert.deepEqual(queriesIn(filter.push(bytes.subarray(8))), ['refused: BASE_BACKUP']);
  });

  it('lets no refused command through random chunks and noise', (context) => {
    const seed = testSeed();
    context.diagnostic(`seed ${seed}`);
    const random = seededRandom(seed);
    for (let round = 0; round < 500; round++) {
      const texts = Array.from({ length: 5 }, () => {
        const pool = random() < 0.5 ? PASSED : REFUSED;
        return pool[Math.floor(random() * pool.length)]!;
      });
      const bytes = Buffer.concat(texts.map((text) => query(text)));
      const filter = new ReplicationFilter();
      const forwarded: Buffer[] = [];
      for (let at = 0; at < bytes.length; ) {
        const end = at + 1 + Math.floor(random() * 40);
        forwarded.push(Buffer.from(filter.push(bytes.subarray(at, end))));
        at = end;
      }
      const seen = queriesIn(Buffer.concat(forwarded)).map((text) => text.startsWith('refused: '));
      assert.deepEqual(
        seen,
        texts.map((text) => REFUSED.includes(text)),
      );
    }
  });
});
