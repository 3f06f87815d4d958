import { PLATFORM_ROLE } from './access.ts';
import type { Session } from './session.ts';

/**
 * What the server counts about its customers' sessions, kept as JSON between two readings. It grows with every
 * connection and every statement, those too that came and went between the readings.
 */
export interface ActivityCounters {
  /** Sessions ever opened to the customer's databases. Platform sessions to them are among these. */
  readonly sessions: number;
  /** Microseconds that sessions spent in statements or transactions. Platform sessions do not track theirs. */
  readonly active_us: number;
}

export interface Activity {
  readonly counters: ActivityCounters;
  /** Something runs at this moment. */
  readonly busy: boolean;
  /** By our clock; undefined when nothing is known. */
  readonly last_active_at: Date | undefined;
}

/**
 * An idle connection does not keep a compute awake; a statement, an open transaction, a logical subscriber, a
 * subscription of its own and an autovacuum worker do. Physical replicas (walsenders without a database) do not, nor
 * do the platform's own sessions. The age of the last change is measured by the server's clock, which need not be ours.
 */
const READING = `
  WITH customer AS (
    SELECT state, state_change FROM pg_catalog.pg_stat_activity
    WHERE backend_type IN ('client backend', 'walsender') AND datid IS NOT NULL
      AND usesysid <> (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = $1)
  ), counted AS (
    SELECT sum(sessions) FILTER (WHERE datname NOT IN ('postgres', 'template0', 'template1'))::text AS sessions,
           sum((active_time * 1000)::bigint)::text AS active_us
    FROM pg_catalog.pg_stat_database WHERE datid <> 0
  )
  SELECT sessions, active_us,
    EXISTS (SELECT FROM customer WHERE state IS DISTINCT FROM 'idle')
      OR EXISTS (SELECT FROM pg_catalog.pg_stat_get_subscription(NULL) WHERE pid IS NOT NULL)
      OR EXISTS (SELECT FROM pg_catalog.pg_stat_activity WHERE backend_type = 'autovacuum worker') AS busy,
    (SELECT extract(epoch FROM pg_catalog.clock_timestamp() - max(state_change)) * 1000 FROM customer)::float8 AS idle_ms
  FROM counted`;

const END_TIMEOUT_MS = 2_000;

/** Ends everybody's sessions but the platform's, as a stop does (57P01), and waits a while until each is gone. */
export async function endClients(session: Session): Promise<void> {
  // First all at once, then again to wait for them: the wait of each is the server's own.
  for (const timeout_ms of [0, END_TIMEOUT_MS]) {
    await session.query(
      `SELECT pg_catalog.pg_terminate_backend(pid, $2) FROM pg_catalog.pg_stat_activity
        WHERE backend_type IN ('client backend', 'walsender') AND usename IS DISTINCT FROM $1`,
      [PLATFORM_ROLE, timeout_ms],
    );
  }
}

/**
 * Reads whether the compute is used, and when it last was. The session must not be inside a transaction, where the
 * server would show the same statistics again. A session of ours to a customer's database counts as a new session:
 * whoever opens one reads the counters anew afterwards.
 * @param previous the counters of the reading before; any difference is activity that happened in between
 */
export async function readActivity(session: Session, previous?: ActivityCounters): Promise<Activity> {
  const { rows } = await session.query(READING, [PLATFORM_ROLE]);
  const { sessions, active_us, busy, idle_ms } = rows[0];
  const counters = { sessions: Number(sessions ?? 0), active_us: Number(active_us ?? 0) };
  const changed = previous !== undefined && !sameCounters(counters, previous);
  const now = Date.now();
  if (busy || changed) return { counters, busy, last_active_at: new Date(now) };
  return { counters, busy, last_active_at: idle_ms === null ? undefined : new Date(now - Math.max(0, idle_ms)) };
}

const sameCounters = (a: ActivityCounters, b: ActivityCounters): boolean =>
  a.active_us === b.active_us && a.sessions === b.sessions;

/**
 * Writes out what is dirty, so that the stop that follows is short.
 * @param timeout_ms after which the server gives up and this throws; the session stays usable
 */
export async function checkpoint(session: Session, timeout_ms = 120_000): Promise<void> {
  await session.query(`SET LOCAL statement_timeout = ${Math.round(timeout_ms)}; CHECKPOINT`);
}

/**
 * Ends those of the sessions that are in no transaction and have nothing to do; those that stream replication have no
 * transaction, however busy they are.
 */
export async function endIdleSessions(session: Session, process_ids: readonly number[]): Promise<void> {
  await session.query(
    `SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
     WHERE pid = ANY ($1::integer[]) AND (state = 'idle' OR backend_type = 'walsender')`,
    [process_ids],
  );
}
