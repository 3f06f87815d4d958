import type { EndpointId } from '../domain/ids.ts';
import type { Sample } from '../watch/sample.ts';
import type { Connections } from './connections.ts';
import type { EndpointTotals, Measures } from './measures.ts';
import type { Pools } from './pool/pools.ts';

interface Sources {
  readonly measures: Measures;
  readonly connections: Connections;
  readonly pools: Pools;
}

/** What the endpoints of a row have at this moment. */
interface Present {
  direct_active: number;
  direct_waiting: number;
  pooled_active: number;
  pooled_waiting: number;
  pooled_idle: number;
  in_use: number;
  idle: number;
  opening: number;
  received_bytes: number;
  sent_bytes: number;
}

/** Everything that a gateway knows, read from its own state at this moment. */
export function gatewaySamples(sources: Sources): Sample[] {
  const present = readPresent(sources);
  return [...sources.measures.endpoints()].flatMap(([endpoint_id, totals]) => [
    ...presentSamples(endpoint_id, present.get(totals) ?? nothing()),
    ...totalSamples(endpoint_id, totals, present.get(totals)),
  ]);
}

const nothing = (): Present => ({
  ...{ direct_active: 0, direct_waiting: 0, pooled_active: 0, pooled_waiting: 0, pooled_idle: 0 },
  ...{ in_use: 0, idle: 0, opening: 0, received_bytes: 0, sent_bytes: 0 },
});

function readPresent({ measures, connections, pools }: Sources): Map<EndpointTotals, Present> {
  const present = new Map<EndpointTotals, Present>();
  const at = (totals: EndpointTotals): Present => {
    const known = present.get(totals) ?? nothing();
    present.set(totals, known);
    return known;
  };
  for (const { record, direct } of connections.open()) {
    const row = at(measures.totalsOf(record));
    row.received_bytes += record.bytes_in;
    row.sent_bytes += record.bytes_out;
    if (direct && record.connected) row.direct_active++;
    else if (direct) row.direct_waiting++;
  }
  for (const [id, { clients, servers }] of pools.views()) {
    const row = at(measures.find(id));
    row.pooled_active += clients.active;
    row.pooled_waiting += clients.waiting;
    row.pooled_idle += clients.idle;
    row.in_use += servers.in_use;
    row.idle += servers.idle;
    row.opening += servers.opening;
  }
  return present;
}

function presentSamples(endpoint_id: EndpointId, row: Present): Sample[] {
  const clients = (host: string, state: string, value: number): Sample => ({
    name: 'coppice_gateway_clients',
    labels: { endpoint_id, host, state },
    value,
  });
  const servers = (state: string, value: number): Sample => ({
    name: 'coppice_gateway_server_connections',
    labels: { endpoint_id, state },
    value,
  });
  return [
    clients('direct', 'active', row.direct_active),
    clients('direct', 'waiting', row.direct_waiting),
    clients('pooled', 'active', row.pooled_active),
    clients('pooled', 'waiting', row.pooled_waiting),
    clients('pooled', 'idle', row.pooled_idle),
    servers('in_use', row.in_use),
    servers('idle', row.idle),
    servers('opening', row.opening),
  ];
}

function totalSamples(endpoint_id: EndpointId, totals: EndpointTotals, row: Present = nothing()): Sample[] {
  const labels = { endpoint_id };
  const samples: Sample[] = [
    { name: 'coppice_gateway_received_bytes_total', labels, value: totals.received_bytes + row.received_bytes },
    { name: 'coppice_gateway_sent_bytes_total', labels, value: totals.sent_bytes + row.sent_bytes },
  ];
  for (const [reason, value] of totals.ended) {
    samples.push({ name: 'coppice_gateway_connections_ended_total', labels: { endpoint_id, reason }, value });
  }
  for (const [why, value] of totals.refused) {
    const [reason, code] = why.split(' ') as [string, string];
    samples.push({ name: 'coppice_gateway_refusals_total', labels: { endpoint_id, reason, code }, value });
  }
  for (const [outcome, value] of totals.requests) {
    samples.push({ name: 'coppice_gateway_http_requests_total', labels: { endpoint_id, outcome }, value });
  }
  if (totals.waits) samples.push({ name: 'coppice_gateway_server_wait_seconds', labels, value: totals.waits });
  for (const [part, value] of totals.wakes) {
    samples.push({ name: 'coppice_gateway_wake_seconds', labels: { endpoint_id, part }, value });
  }
  return samples;
}
