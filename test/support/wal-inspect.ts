import type { Session } from '../../src/postgres/session.ts';
import type { Commit } from '../../src/postgres/wal/commits.ts';

/** A record as the server's own pg_walinspect shows it. */
export interface Inspected {
  readonly start: bigint;
  readonly end: bigint;
  readonly rmgr: number;
  readonly xid: number;
  readonly commit?: Pick<Commit, 'kind' | 'timestamp_us'>;
}

const TIME = /(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d+))?\+00/;

/** Every record from a position up to what is flushed now. */
export async function inspectLog(session: Session, from: bigint): Promise<{ records: Inspected[]; until: bigint }> {
  await session.query('CREATE EXTENSION IF NOT EXISTS pg_walinspect SCHEMA pg_catalog');
  await session.query('CHECKPOINT');
  const flushed = await session.query(`SELECT (pg_current_wal_flush_lsn() - '0/0')::text AS until`);
  const until = BigInt(flushed.rows[0].until);
  const { rows } = await session.query(
    `SELECT (start_lsn - '0/0')::text AS start, (end_lsn - '0/0')::text AS end, rm_id, xid::text::bigint::int AS xid,
            CASE resource_manager WHEN 'Transaction' THEN record_type END AS type,
            CASE resource_manager WHEN 'Transaction' THEN description END AS description
       FROM pg_get_wal_records_info('0/0'::pg_lsn + $1::numeric, '0/0'::pg_lsn + $2::numeric)
       JOIN pg_get_wal_resource_managers() ON rm_name = resource_manager
      ORDER BY start_lsn`,
    [String(from), String(until)],
  );
  const records = rows.map(({ start, end, rm_id, xid, type, description }) => ({
    start: BigInt(start),
    end: BigInt(end),
    rmgr: rm_id,
    xid,
    commit: /^(COMMIT|ABORT)/.test(type ?? '') ? commitOf(type, description) : undefined,
  }));
  return { records, until };
}

function commitOf(type: string, description: string): Inspected['commit'] {
  const [, day, time, fraction = ''] = TIME.exec(description) ?? [];
  if (!day) throw new Error(`no time in "${description}"`);
  const seconds = BigInt(Date.parse(`${day}T${time}Z`)) * 1000n;
  return {
    kind: type.toLowerCase() as Commit['kind'],
    timestamp_us: seconds + BigInt(fraction.padEnd(6, '0')),
  };
}

export const isCommit = ({ commit }: Inspected): boolean => commit?.kind.startsWith('commit') ?? false;

/** The last that starts before a position, of a list in order. */
export const lastBefore = (records: readonly Inspected[], position: bigint): Inspected | undefined =>
  records.findLast(({ start }) => start < position);
