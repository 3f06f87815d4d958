import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { OpenSession, Session } from '../../src/postgres/session.ts';
import type { WalSegments } from '../../src/postgres/wal/segments.ts';
import { walSegmentName } from '../../src/postgres/wal-segment.ts';

/** A statement of the workload whose own transaction ended between two positions that the server gave. */
export interface Seen {
  readonly kind: 'commit' | 'abort' | 'commit_prepared' | 'abort_prepared';
  readonly xid: number;
  readonly after: bigint;
  readonly before: bigint;
}

/** The segments of a stopped or idle data directory, and which of them were read. */
export interface SegmentsOfDirectory extends WalSegments {
  readonly reads: string[];
}

/** Where the server inserts next, or has written to, as a number. */
export async function insertPosition(session: Session): Promise<bigint> {
  const { rows } = await session.query(`SELECT (pg_current_wal_insert_lsn() - '0/0')::text AS position`);
  return BigInt(rows[0].position);
}

/** The contiguous run of segments that holds a position, oldest first. */
export async function segmentsOf(dataDirectory: string, holding: bigint): Promise<SegmentsOfDirectory> {
  const wal_segment_bytes = 1024 * 1024;
  const directory = join(dataDirectory, 'pg_wal');
  const there = new Set((await readdir(directory)).filter((name) => /^[0-9A-F]{24}$/.test(name)));
  const size = BigInt(wal_segment_bytes);
  const timeline = Number.parseInt([...there].sort().at(-1)?.slice(0, 8) ?? '1', 16);
  const nameAt = (position: bigint) => walSegmentName(timeline, position, wal_segment_bytes);
  let first = holding - (holding % size);
  while (there.has(nameAt(first - size))) first -= size;
  const names: string[] = [];
  for (let at = first; there.has(nameAt(at)); at += size) names.push(nameAt(at));
  const reads: string[] = [];
  const contents = new Map<string, Promise<Buffer>>();
  return {
    wal_segment_bytes,
    names,
    reads,
    read: (name) => {
      reads.push(name);
      if (!contents.has(name)) contents.set(name, readFile(join(directory, name)));
      return contents.get(name)!;
    },
  };
}

export const WORKLOAD_SETTINGS = {
  fsync: 'off',
  wal_level: 'logical',
  wal_recycle: 'off',
  wal_init_zero: 'off',
  wal_keep_size: '1GB',
  max_prepared_transactions: '20',
  track_commit_timestamp: 'on',
} as const;

/** Several sessions write at once, each `steps` random things; what each saw of its own transactions comes back. */
export async function runWorkload(
  open: OpenSession,
  random: () => number,
  { sessions, steps }: { sessions: number; steps: number },
): Promise<Seen[]> {
  const seen: Seen[] = [];
  await Promise.all(
    Array.from({ length: sessions }, async (_, number) => {
      await using session = await open('postgres');
      const own = `w${number}`;
      await session.query(`CREATE TABLE IF NOT EXISTS public.${own} (id bigserial PRIMARY KEY, body bytea, n int)`);
      await session.query(`ALTER TABLE public.${own} ALTER body SET STORAGE EXTERNAL`);
      const several = "decode(repeat('5a', 2500000), 'hex')";
      if (number === 0) await session.query(`SELECT pg_logical_emit_message(false, 'm', ${several})`);
      for (let step = 0; step < steps; step++) await oneStep(session, own, random, seen);
    }),
  );
  return seen;
}

async function oneStep(session: Session, table: string, random: () => number, seen: Seen[]): Promise<void> {
  const upTo = (most: number) => Math.floor(random() * most);
  const bytes = (length: number) => `decode(repeat('${upTo(256).toString(16).padStart(2, '0')}', ${length}), 'hex')`;
  const insert = (rows: number, length: number) =>
    `INSERT INTO public.${table} (body, n) SELECT ${bytes(length)}, g FROM generate_series(1, ${rows}) g`;
  const small = insert(1, 1 + upTo(300));
  const steps: (() => Promise<unknown>)[] = [
    () => ended(session, 'commit', [small], seen),
    () => ended(session, 'commit', [small], seen),
    () => ended(session, 'commit', [insert(1 + upTo(800), upTo(120))], seen),
    () => ended(session, 'commit', [insert(1, upTo(200_000))], seen),
    () => ended(session, 'commit', [`UPDATE public.${table} SET n = n + 1 WHERE id % 7 = ${upTo(7)}`, small], seen),
    () => ended(session, 'abort', [small, insert(1, upTo(9000))], seen),
    () => ended(session, 'commit', [small, 'SAVEPOINT a', small, 'ROLLBACK TO a', 'SAVEPOINT b', small], seen),
    () =>
      ended(
        session,
        'commit',
        [small, ...Array.from({ length: upTo(70) }, (_, n) => `SAVEPOINT s${n}; ${small}`)],
        seen,
      ),
    () => ended(session, 'commit', [`CREATE TABLE public.${table}_t AS SELECT 1; DROP TABLE public.${table}_t`], seen),
    () => ended(session, 'commit_prepared', [small], seen),
    () => ended(session, 'abort_prepared', [insert(3, 100)], seen),
    () => ended(session, 'commit', [small, `SELECT pg_logical_emit_message(true, 'm', ${bytes(upTo(30_000))})`], seen),
    () => session.query(`SELECT pg_logical_emit_message(false, 'm', ${bytes(upTo(8_300))})`),
    () => session.query(`SELECT pg_logical_emit_message(false, 'm', ${bytes(upTo(3_000_000))})`),
    () => session.query('SELECT pg_switch_wal()'),
    () => session.query('CHECKPOINT'),
    () => session.query(`SELECT pg_create_restore_point('${table}')`),
  ];
  // What is big is rare.
  const chosen = upTo(steps.length + 60);
  await steps[chosen < steps.length ? chosen : chosen % 12]!();
}

async function ended(session: Session, kind: Seen['kind'], statements: readonly string[], seen: Seen[]): Promise<void> {
  await session.query(`BEGIN; ${statements.join('; ')}`);
  const { rows } = await session.query('SELECT pg_current_xact_id()::xid::text AS xid');
  const xid = Number(rows[0].xid);
  if (kind.endsWith('prepared')) await session.query(`PREPARE TRANSACTION 'p${xid}'`);
  const after = await insertPosition(session);
  if (kind === 'commit') await session.query('COMMIT');
  else if (kind === 'abort') await session.query('ROLLBACK');
  else await session.query(`${kind === 'commit_prepared' ? 'COMMIT' : 'ROLLBACK'} PREPARED 'p${xid}'`);
  seen.push({ kind, xid, after, before: await insertPosition(session) });
}
