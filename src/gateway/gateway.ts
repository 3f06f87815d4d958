import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, isIPv6, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { EndpointConnections } from '../domain/endpoint-connections.ts';
import type { EndpointId } from '../domain/ids.ts';
import { LIMITS } from '../domain/limits.ts';
import { isLocalDomain } from '../domain/outbound-url.ts';
import type { Sample } from '../watch/sample.ts';
import { CancelKeys, cancelSlot } from '../wire/cancel-keys.ts';
import { type CancelTarget, cancelFrom } from './cancel-query.ts';
import type { Certificates } from './certificates.ts';
import { closeGently } from './close-gently.ts';
import { type ConnectionRecord, type GatewayLogger, logRecord, newRecord, recordError } from './connection-record.ts';
import { Connections } from './connections.ts';
import type { CancelRequest, Directory, GatewayPeers, TokenDirectory, Waker } from './contract.ts';
import { DirectSessions, drain } from './drain.ts';
import { viewEndpoint } from './endpoint-view.ts';
import { type ReceiveOpening, receiveFromSocket } from './handshake.ts';
import { type UpgradeHandler, webSockets } from './http/serve-web-sockets.ts';
import { type SqlHandler, sqlHandler } from './http/sql-handler.ts';
import { type KeySetLimits, TokenVerifier } from './http/verify-token.ts';
import { type GuardLimits, LoginGuard } from './login-guard.ts';
import { peerOf } from './peer.ts';
import { Pools } from './pool/pools.ts';
import { type ProxyRules, receiveBehindProxy } from './proxy-protocol.ts';
import { refusalResponse, refusals } from './refusal.ts';
import { gatewaySamples } from './samples.ts';
import { type ConnectionContext, serveConnection } from './serve-connection.ts';
import type { Transfer } from './transfers.ts';
import { turnstile } from './turnstile.ts';
import { VerifiedPasswords } from './verified-passwords.ts';

export interface GatewayOptions {
  /** Where to listen; port 0 takes a free one. An IPv6 address is skipped where the machine has no IPv6. */
  readonly listen: readonly { readonly host: string; readonly port: number }[];
  /** Endpoints are the labels directly under it. */
  readonly domain: string;
  /** Load balancers that say whose a connection is; without, nobody is believed. */
  readonly proxy?: ProxyRules;
  /** Refuse plaintext from loopback too. */
  readonly require_tls: boolean;
  readonly certificates: Certificates;
  readonly directory: Directory;
  readonly waker: Waker;
  /** Who gets in by a token over HTTP; nobody where it is left out. */
  readonly tokens?: TokenDirectory;
  /** Undefined: nobody else serves the port. */
  readonly peers?: GatewayPeers;
  readonly logger: GatewayLogger;
  /**
   * 32 bytes that must stay the same over restarts and gateways: unknown roles are answered from it. Random when left
   * out, which suits a gateway that is alone and never restarted.
   */
  readonly mock_secret?: Buffer;
  /** There may be transfers to take from now on, where there were none. */
  readonly onTransfers?: () => void;
  /** Hears of the end of every connection that had logged in. */
  readonly onSessionEnd?: (record: Readonly<ConnectionRecord>) => void;
  /** Bounds other than the product's. */
  readonly limits?: Partial<GatewayLimits>;
  /** False splices over the public stream API alone. */
  readonly raw_splice?: boolean;
}

export type GatewayLimits = GuardLimits & {
  readonly [Name in
    | 'handshake_timeout_ms'
    | 'authentication_timeout_ms'
    | 'wake_timeout_ms'
    | keyof KeySetLimits
    | 'archive_notice_ms'
    | 'archive_timeout_ms'
    | 'half_close_timeout_ms'
    | 'flush_timeout_ms'
    | 'linger_timeout_ms'
    | 'unauthenticated_connections'
    | 'sessions_per_endpoint'
    | 'measured_endpoints'
    | 'measured_idle_ms'
    | 'pool_wait_notice_ms'
    | 'pool_wait_timeout_ms'
    | 'pool_server_idle_ms'
    | 'pool_full_retry_ms'
    | 'drain_timeout_ms'
    | 'drain_interval_ms'
    | 'sql_request_bytes'
    | 'sql_response_bytes']: number;
};

export interface Gateway {
  readonly addresses: readonly AddressInfo[];
  /** For the HTTP server that shares its port with the gateway. */
  readonly upgrade: UpgradeHandler;
  readonly request: SqlHandler;
  /** Clients of an endpoint that have logged in and are still connected, those that wait for its wake included. */
  sessionCount(id: EndpointId): number;
  /** Who is connected to an endpoint; each list has `limit` entries at most. */
  connectionsOf(id: EndpointId, limit: number): EndpointConnections;
  /** What is measured, read at this moment. */
  samples(): Sample[];
  /** False: nobody is connected, and everything has been taken. */
  transfersPending(): boolean;
  /** What passed between clients and endpoints since the last call. */
  takeTransfers(): Transfer[];
  /** Cancels what a key of this gateway stands for. Never throws. */
  cancel(request: CancelRequest): Promise<void>;
  /**
   * Stops accepting. With `drain`, connections end as soon as they are in no transaction, and the others get
   * `drain_timeout_ms` to end theirs; then, or without it, every connection is closed. Resolves once all are.
   */
  stop(options?: { readonly drain?: boolean }): Promise<void>;
}

const LISTEN_BACKLOG = 4096;
const KEEPALIVE_DELAY_MS = 60_000;
/** Half of the thread pool, so that files and name look-ups are not held up by passwords. */
const HASHING_WIDTH = 2;

/** Starts the Postgres gateway. Throws when an address cannot be listened on; then nothing listens. */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const limits: GatewayLimits = { ...LIMITS, ...options.limits };
  const [draining, stopping] = [new AbortController(), new AbortController()];
  const connections = new Connections(limits, options.onTransfers);
  const shared = shareContext(options, limits, connections, { draining: draining.signal, stopping: stopping.signal });
  const { pools } = shared;

  const accept = (socket: Socket) => {
    // Errors reach us as the end of the stream as well; without a listener they would end the process.
    socket.on('error', () => undefined);
    const record = newRecord(peerOf(socket), 'tcp');
    const receive = receiveFromSocket(socket, options.certificates);
    const behind = options.proxy ? receiveBehindProxy(socket, options.proxy, record, receive) : receive;
    connections.track(serve(socket, behind, record));
  };

  async function serve(stream: Duplex, receive: ReceiveOpening, record: ConnectionRecord): Promise<void> {
    const started = performance.now();
    const admission = connections.admit(record);
    if (admission === 'dropped') return void stream.destroy();
    let authenticated = false;
    const onAuthenticated: ConnectionContext['onAuthenticated'] = (id, options) => {
      shared.guard.enter(id);
      connections.authenticated(record, id, { ...options, pool_servers: pools.serverCount(id) });
      authenticated = true;
    };
    if (admission === 'refused') await refuse(stream, record, limits);
    else await serveConnection(stream, receive, record, { ...shared, onAuthenticated });
    connections.ended(record);
    record.total_ms = performance.now() - started;
    // Cancels, and probes that say nothing, are not worth a line.
    const silent = record.error_code === undefined && record.error_cause === undefined;
    if (record.user !== undefined || !silent) logRecord(options.logger, record);
    if (authenticated) options.onSessionEnd?.(record);
  }

  const { domain } = options;
  const upgrade = webSockets({ domain, linger_timeout_ms: limits.linger_timeout_ms }, (request, stream, receive) => {
    connections.track(serve(stream, receive, newRecord(peerOf(request.socket), 'websocket')));
  });

  const request = sqlHandler({
    ...{ connections, logger: options.logger, onSessionEnd: options.onSessionEnd },
    context: {
      ...shared,
      limits,
      tokens: options.tokens && {
        directory: options.tokens,
        verifier: new TokenVerifier({ loopback: isLocalDomain(domain), limits }),
      },
    },
  });

  const servers = await listen(options, accept);
  return {
    addresses: servers.map((server) => server.address() as AddressInfo),
    upgrade,
    request,
    ...views(connections, pools),
    cancel: (request) => shared.cancelOwn(request),
    async stop({ drain: gently = false } = {}) {
      for (const server of servers) server.close();
      draining.abort(refusals.shuttingDown());
      if (gently) await drain(shared.direct, options.waker, connections.allEnded(), limits);
      stopping.abort(refusals.shuttingDown());
      pools.close(refusals.shuttingDown());
      await connections.allEnded();
    },
  };
}

/** What a gateway tells of itself. */
const views = (
  connections: Connections,
  pools: Pools,
): Pick<Gateway, 'sessionCount' | 'connectionsOf' | 'samples' | 'transfersPending' | 'takeTransfers'> => ({
  sessionCount: (id) => connections.sessionCount(id),
  connectionsOf: (id, limit) => viewEndpoint(id, limit, { connections, pools }),
  samples: () => gatewaySamples({ measures: connections.measures, connections, pools }),
  transfersPending: () => connections.transfers.pending,
  takeTransfers: () => connections.transfers.take(),
});

/** What all connections use. */
function shareContext(
  options: GatewayOptions,
  limits: GatewayLimits,
  connections: Connections,
  { draining, stopping }: { draining: AbortSignal; stopping: AbortSignal },
) {
  const { peers } = options;
  const cancelKeys = new CancelKeys<CancelTarget>(LIMITS.cancel_keys, peers?.slot);
  const cancelOwn = async ({ key, peer }: CancelRequest) => {
    const target = cancelKeys.find(key);
    if (target) await cancelFrom(peer, target);
  };
  const pools = new Pools({
    ...{ directory: options.directory, waker: options.waker, limits, stopping },
    raw_splice: options.raw_splice ?? true,
    directSessions: (id) => connections.directCount(id),
    measures: connections.measures,
  });
  return {
    directory: options.directory,
    mock_secret: options.mock_secret ?? randomBytes(32),
    hashing: turnstile(HASHING_WIDTH),
    passwords: new VerifiedPasswords({
      capacity: LIMITS.verified_passwords,
      lifetime_ms: LIMITS.verified_password_ms,
    }),
    domain: options.domain,
    require_tls: options.require_tls,
    waker: options.waker,
    pools,
    measures: connections.measures,
    guard: new LoginGuard(limits),
    cancelKeys,
    cancelOwn,
    cancel: (request: CancelRequest) =>
      peers && cancelSlot(request.key) !== peers.slot ? peers.cancel(request) : cancelOwn(request),
    direct: new DirectSessions(),
    timeouts: limits,
    raw_splice: options.raw_splice ?? true,
    draining,
    stopping,
  };
}

async function refuse(stream: Duplex, record: ConnectionRecord, { linger_timeout_ms }: GatewayLimits): Promise<void> {
  const refusal = refusals.tooManyUnauthenticated();
  recordError(record, refusal);
  await closeGently(stream, refusalResponse(refusal, record.session_id), linger_timeout_ms);
}

/** Listens on every address or, when one of them fails, on none. */
async function listen(
  { listen: wanted, logger }: GatewayOptions,
  accept: (socket: Socket) => void,
): Promise<readonly Server[]> {
  const servers: Server[] = [];
  const bothFamilies = wanted.some(({ host }) => isIPv6(host)) && wanted.some(({ host }) => !isIPv6(host));
  try {
    for (const { host, port } of wanted) {
      const server = createServer(
        { allowHalfOpen: true, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEPALIVE_DELAY_MS },
        accept,
      );
      try {
        server.listen({ host, port, backlog: LISTEN_BACKLOG, ipv6Only: bothFamilies && isIPv6(host) });
        await once(server, 'listening');
        servers.push(server);
        server.on('error', (error) =>
          logger.error({ error: error.message }, 'the gateway could not accept a connection'),
        );
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (!isIPv6(host) || wanted.length === 1 || (code !== 'EAFNOSUPPORT' && code !== 'EADDRNOTAVAIL')) throw error;
        logger.warn({ host, port }, 'this machine has no IPv6; the gateway does not listen there');
      }
    }
  } catch (error) {
    for (const server of servers) server.close();
    throw error;
  }
  return servers;
}
