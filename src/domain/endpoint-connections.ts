import type { EndpointId } from './ids.ts';

/** Clients of pools. Requests over HTTP are among them. */
export interface PooledCounts {
  /** Those that have a server connection. */
  readonly active: number;
  /** Those that wait for one. */
  readonly waiting: number;
  readonly idle: number;
}

/** The pools of one role and database. */
export interface PoolView {
  readonly role: string;
  readonly database: string;
  readonly clients: PooledCounts;
  readonly servers: { readonly in_use: number; readonly idle: number; readonly opening: number };
  /** Of those that wait now. */
  readonly longest_wait_ms: number;
}

/** A client that has, or will have, a session of the server to itself. */
export interface DirectSession {
  readonly session_id: string;
  readonly role: string;
  readonly database: string;
  readonly application_name: string | undefined;
  /** Address and port. */
  readonly peer: string | undefined;
  readonly protocol: string;
  /** `waiting` for the compute. */
  readonly state: 'active' | 'waiting';
  readonly connected_at: Date;
  readonly received_bytes: number;
  readonly sent_bytes: number;
}

/** Who is connected to an endpoint at a moment. */
export interface EndpointConnections {
  readonly pooled: PooledCounts;
  readonly direct: { readonly active: number; readonly waiting: number };
  /** Those whose clients wait for the longest first. */
  readonly pools: readonly PoolView[];
  readonly pools_total: number;
  /** The oldest first. */
  readonly sessions: readonly DirectSession[];
  readonly sessions_total: number;
}

/**
 * Asks the gateway who is connected. Handed in by `main`, since whoever asks does not know the gateway.
 *
 * @param limit of each list
 */
export type ConnectionsReader = (id: EndpointId, limit: number) => Promise<EndpointConnections>;

/** What several know of one endpoint, as one view; lists have `limit` entries at most. */
export function addConnections(parts: readonly EndpointConnections[], limit: number): EndpointConnections {
  const pools = addPools(parts.flatMap((part) => part.pools));
  const sessions = parts.flatMap((part) => part.sessions);
  const sum = (count: (part: EndpointConnections) => number) => parts.reduce((total, part) => total + count(part), 0);
  return {
    pooled: parts.map((part) => part.pooled).reduce(addCounts, NOBODY),
    direct: { active: sum(({ direct }) => direct.active), waiting: sum(({ direct }) => direct.waiting) },
    pools: pools.sort((a, b) => b.longest_wait_ms - a.longest_wait_ms).slice(0, limit),
    // Exact where none of the parts was cut short.
    pools_total: Math.max(pools.length, ...parts.map((part) => part.pools_total)),
    sessions: sessions.sort((a, b) => a.connected_at.getTime() - b.connected_at.getTime()).slice(0, limit),
    sessions_total: sum((part) => part.sessions_total),
  };
}

const NOBODY: PooledCounts = { active: 0, waiting: 0, idle: 0 };

const addCounts = (a: PooledCounts, b: PooledCounts): PooledCounts => ({
  active: a.active + b.active,
  waiting: a.waiting + b.waiting,
  idle: a.idle + b.idle,
});

/** One view for each role and database: pools differ in passwords and parameters, too, which are nobody's to see. */
export function addPools(pools: readonly PoolView[]): PoolView[] {
  const views = new Map<string, PoolView>();
  for (const pool of pools) {
    const key = JSON.stringify([pool.role, pool.database]);
    const known = views.get(key);
    views.set(key, known ? addPool(known, pool) : pool);
  }
  return [...views.values()];
}

function addPool(a: PoolView, b: PoolView): PoolView {
  return {
    role: a.role,
    database: a.database,
    clients: addCounts(a.clients, b.clients),
    servers: {
      in_use: a.servers.in_use + b.servers.in_use,
      idle: a.servers.idle + b.servers.idle,
      opening: a.servers.opening + b.servers.opening,
    },
    longest_wait_ms: Math.max(a.longest_wait_ms, b.longest_wait_ms),
  };
}
