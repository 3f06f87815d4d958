/** A metric as it is shown. */
export interface MetricKind {
  readonly type: 'gauge' | 'counter' | 'histogram';
  /** One sentence, for people. */
  readonly help: string;
  readonly labels: readonly string[];
}

/**
 * The one vocabulary of metrics: whatever a room measures is measured under one of these names. `/metrics` shows nothing
 * else but what Node and the process say of themselves.
 */
export const METRICS = {
  coppice_gateway_clients: {
    type: 'gauge',
    help: 'Clients that have logged in. On pooled hosts `active` has a server connection, `waiting` waits for one, `idle` needs none; requests over HTTP are among them. On direct hosts `waiting` waits for the compute, everybody else is `active`.',
    labels: ['endpoint_id', 'host', 'state'],
  },
  coppice_gateway_server_connections: {
    type: 'gauge',
    help: "Connections of the pools to the endpoint's server: `in_use`, `idle`, and `opening`.",
    labels: ['endpoint_id', 'state'],
  },
  coppice_gateway_server_wait_seconds: {
    type: 'histogram',
    help: 'How long clients waited for a server connection of a pool. Those that found one at once are not in it.',
    labels: ['endpoint_id'],
  },
  coppice_gateway_wake_seconds: {
    type: 'histogram',
    help: 'Connections that woke their compute, part by part: `authentication` of the client (direct hosts), `operation` from the request of a start until the compute is said to run, `start` until it lets somebody in, `connect` the login.',
    labels: ['endpoint_id', 'part'],
  },
  coppice_gateway_received_bytes_total: {
    type: 'counter',
    help: 'Bytes that came from clients since they had logged in.',
    labels: ['endpoint_id'],
  },
  coppice_gateway_sent_bytes_total: {
    type: 'counter',
    help: 'Bytes that went to clients since they had logged in.',
    labels: ['endpoint_id'],
  },
  coppice_gateway_connections_ended_total: {
    type: 'counter',
    help: 'Sessions that ended, by `reason`: `client` left in order, `clientdisconnect` broke or left in the middle, `compute` was closed by the server or lost it, `shutdown` of the gateway, or as for refusals.',
    labels: ['endpoint_id', 'reason'],
  },
  coppice_gateway_refusals_total: {
    type: 'counter',
    help: 'Connections and requests that were refused: whose doing it was (`user`, `ratelimit`, `controlplane`, `compute`, `shutdown`), and the SQLSTATE that the client was sent.',
    labels: ['endpoint_id', 'reason', 'code'],
  },
  coppice_gateway_http_requests_total: {
    type: 'counter',
    help: 'Requests of SQL over HTTP that were `answered`, had an error of the server or in between (`failed`), were `refused`, or whose client `left`.',
    labels: ['endpoint_id', 'outcome'],
  },
  coppice_operations: {
    type: 'gauge',
    help: 'Operations that have not ended, of the whole installation.',
    labels: ['action', 'status'],
  },
  coppice_operations_ended_total: {
    type: 'counter',
    help: 'Operations that were run to their end here.',
    labels: ['action', 'status'],
  },
  coppice_usage_active_seconds_total: {
    type: 'counter',
    help: 'How long computes have run, of the whole installation. Begins at 0 with each calendar month (UTC), as the next ones.',
    labels: [],
  },
  coppice_usage_compute_seconds_total: {
    type: 'counter',
    help: 'The same times the size of each compute in CU.',
    labels: [],
  },
  coppice_usage_written_bytes_total: {
    type: 'counter',
    help: 'Write-ahead log of all branches.',
    labels: [],
  },
  coppice_usage_received_bytes_total: {
    type: 'counter',
    help: 'Bytes that came from clients, as they are metered.',
    labels: [],
  },
  coppice_usage_sent_bytes_total: {
    type: 'counter',
    help: 'Bytes that went to clients, as they are metered.',
    labels: [],
  },
  coppice_store_connections: {
    type: 'gauge',
    help: "Connections to Coppice's own database: `intent` for what callers wait for, `observed` for what was seen.",
    labels: ['pool', 'state'],
  },
  coppice_store_waiting: {
    type: 'gauge',
    help: 'Statements that wait for one of those connections.',
    labels: ['pool'],
  },
  coppice_event_loop_active_seconds_total: {
    type: 'counter',
    help: 'How long the event loop had something to do since the process began. Its rate is 1 where the process can do no more.',
    labels: [],
  },
} as const satisfies Readonly<Record<string, MetricKind>>;

export type MetricName = keyof typeof METRICS;
