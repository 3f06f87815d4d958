import type { EndpointConnections as View } from '../../domain/endpoint-connections.ts';
import type { EndpointConnections } from '../schemas/endpoint-connections.ts';
import { timestamp } from './timestamp.ts';

/** Who is connected to an endpoint as the API shows it. */
export const serializeConnections = ({ pools, sessions, ...counts }: View): EndpointConnections => ({
  ...counts,
  pools: pools.map(({ role, database, longest_wait_ms, ...pool }) => ({
    role_name: role,
    database_name: database,
    ...pool,
    longest_wait_ms: Math.round(longest_wait_ms),
  })),
  sessions: sessions.map(({ role, database, connected_at, ...session }) => ({
    ...session,
    role_name: role,
    database_name: database,
    connected_at: timestamp(connected_at),
  })),
});
