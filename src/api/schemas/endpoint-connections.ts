import Type, { type Static } from 'typebox';
import { LIMITS } from '../../domain/limits.ts';
import { Timestamp, Uuid } from './fields.ts';

const Count = Type.Integer({ minimum: 0 });
const PooledCounts = Type.Object({ active: Count, waiting: Count, idle: Count });

const Pool = Type.Object({
  role_name: Type.String(),
  database_name: Type.String(),
  clients: PooledCounts,
  servers: Type.Object({ in_use: Count, idle: Count, opening: Count }),
  /** Of the clients that wait now. */
  longest_wait_ms: Count,
});

const Session = Type.Object({
  session_id: Uuid,
  role_name: Type.String(),
  database_name: Type.String(),
  application_name: Type.Optional(Type.String()),
  peer: Type.Optional(Type.String()),
  protocol: Type.String({ enum: ['tcp', 'websocket', 'http'] }),
  state: Type.String({ enum: ['active', 'waiting'] }),
  connected_at: Timestamp,
  received_bytes: Count,
  sent_bytes: Count,
});

export const EndpointConnections = Type.Object({
  pooled: PooledCounts,
  direct: Type.Object({ active: Count, waiting: Count }),
  pools: Type.Array(Pool),
  pools_total: Count,
  sessions: Type.Array(Session),
  sessions_total: Count,
});
export type EndpointConnections = Static<typeof EndpointConnections>;

/** Of each list. */
export const ConnectionsQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMITS.connections_listed })),
});
