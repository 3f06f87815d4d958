import {
  addConnections,
  addPools,
  type DirectSession,
  type EndpointConnections,
} from '../domain/endpoint-connections.ts';
import type { EndpointId } from '../domain/ids.ts';
import type { ConnectionRecord } from './connection-record.ts';
import type { Connections } from './connections.ts';
import type { Pools } from './pool/pools.ts';

/** Who is connected to an endpoint through this gateway at this moment; each list has `limit` entries at most. */
export function viewEndpoint(
  id: EndpointId,
  limit: number,
  { connections, pools }: { readonly connections: Connections; readonly pools: Pools },
): EndpointConnections {
  const sessions: DirectSession[] = [];
  for (const { record, id: of, direct } of connections.open())
    if (direct && of === id) sessions.push(sessionOf(record));
  const views = addPools(Array.from(pools.views(id), ([, view]) => view));
  const sum = (state: 'active' | 'waiting' | 'idle') => views.reduce((total, { clients }) => total + clients[state], 0);
  const active = sessions.filter(({ state }) => state === 'active').length;
  const all = {
    pooled: { active: sum('active'), waiting: sum('waiting'), idle: sum('idle') },
    direct: { active, waiting: sessions.length - active },
    pools: views,
    pools_total: views.length,
    sessions,
    sessions_total: sessions.length,
  };
  return addConnections([all], limit);
}

const sessionOf = (record: ConnectionRecord): DirectSession => ({
  session_id: record.session_id,
  role: record.user ?? '',
  database: record.database ?? '',
  application_name: record.application_name,
  peer: record.peer,
  protocol: record.protocol,
  state: record.connected ? 'active' : 'waiting',
  connected_at: record.connected_at,
  received_bytes: record.bytes_in,
  sent_bytes: record.bytes_out,
});
