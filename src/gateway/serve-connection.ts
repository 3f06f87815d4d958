import type { Duplex } from 'node:stream';
import type { BranchId, EndpointId } from '../domain/ids.ts';
import { LIMITS } from '../domain/limits.ts';
import {
  authenticationOk,
  backendKeyData,
  negotiateProtocolVersion,
  noticeResponse,
} from '../wire/backend-messages.ts';
import type { CancelKeys, IssuedKey } from '../wire/cancel-keys.ts';
import { parseReplication } from '../wire/replication.ts';
import { ReplicationFilter } from '../wire/replication-filter.ts';
import type { Startup } from '../wire/startup.ts';
import { parseStartupOptions } from '../wire/startup-options.ts';
import { checkAddress } from './allow-list.ts';
import { type Authenticated, type AuthenticationContext, authenticate, findDestination } from './authenticate.ts';
import type { ByteChannel } from './byte-channel.ts';
import { type CancelTarget, cancelQuery } from './cancel-query.ts';
import { closeGently } from './close-gently.ts';
import type { ComputeSession } from './compute-login.ts';
import { connectCompute, travel } from './connect-compute.ts';
import { type ConnectionRecord, loggable, recordError } from './connection-record.ts';
import type { CancelRequest, Directory, EndpointEntry, PointText, Waker } from './contract.ts';
import { withDeadline } from './deadline.ts';
import type { DirectSessions } from './drain.ts';
import type { Opening, ReceiveOpening } from './handshake.ts';
import type { LoginGuard } from './login-guard.ts';
import type { Measures } from './measures.ts';
import { isLoopback } from './peer.ts';
import type { Pools } from './pool/pools.ts';
import { openPooled, type PooledRequest } from './pool/serve-pooled.ts';
import { ClientGone, ComputeRefusal, refusalResponse, refusals, toRefusal } from './refusal.ts';
import { chooseRoute, type Route, readPoint, routeTarget } from './route.ts';
import { type SpliceTimeouts, splice } from './splice.ts';
import { whenAborted } from './when-aborted.ts';

/** What all connections of a gateway share. */
export interface ConnectionContext extends AuthenticationContext {
  readonly domain: string;
  readonly require_tls: boolean;
  readonly waker: Waker;
  readonly cancelKeys: CancelKeys<CancelTarget>;
  /** Cancels what a key stands for, whoever issued it. Never throws. */
  cancel(request: CancelRequest): Promise<void>;
  readonly direct: DirectSessions;
  readonly pools: Pools;
  readonly guard: LoginGuard;
  readonly timeouts: SpliceTimeouts & {
    readonly handshake_timeout_ms: number;
    readonly authentication_timeout_ms: number;
    readonly wake_timeout_ms: number;
    readonly archive_notice_ms: number;
    readonly archive_timeout_ms: number;
  };
  readonly raw_splice: boolean;
  readonly measures: Measures;
  /** Aborts when nobody new is let in any more. */
  readonly draining: AbortSignal;
  /** Aborts when every connection has to end. */
  readonly stopping: AbortSignal;
  /** Called once a client has proved who it is. Throws a Refusal when the endpoint has too many sessions. */
  onAuthenticated(
    id: EndpointId | BranchId,
    options: { readonly pooled: boolean; readonly sessions_max?: number },
  ): void;
}

/** What a client asked for, checked as far as its start-up packet goes. */
interface Request {
  readonly startup: Startup;
  readonly user: string;
  /** For the compute. */
  readonly parameters: ReadonlyMap<string, string>;
  readonly option: string | undefined;
  readonly point: PointText | undefined;
  readonly logical: boolean;
}

/**
 * Serves one client from its first byte to its last, and fills in `record`. Never throws.
 *
 * @param stream a socket, or a stream of bytes that comes through something else
 * @param receiveOpening reads the first packet of such a stream
 */
export async function serveConnection(
  stream: Duplex,
  receiveOpening: ReceiveOpening,
  record: ConnectionRecord,
  context: ConnectionContext,
): Promise<void> {
  let channel: ByteChannel | undefined;
  let client: Duplex | undefined;
  try {
    const session = await letIn(
      receiveOpening,
      (current) => {
        channel = current;
        client = current?.stream;
      },
      record,
      context,
    );
    channel = undefined;
    await session?.();
  } catch (error) {
    const refusal = toRefusal(error);
    recordError(record, refusal);
    if (client && !(refusal instanceof ClientGone)) {
      channel?.release();
      const response = refusalResponse(refusal, record.session_id);
      // Those who come too often are not waited for: they would take the places of others.
      const often = record.error_kind === 'ratelimit';
      const linger_ms = often ? LIMITS.rate_limit_linger_timeout_ms : context.timeouts.linger_timeout_ms;
      await closeGently(client, response, linger_ms);
    }
  } finally {
    client?.destroy();
    stream.destroy();
  }
}

/** What is left to do for a client once it is in. What its login needed is not held by it: thousands wait in one. */
type Session = () => Promise<void>;

/** Receives a client and lets it in; undefined for one that only wanted to cancel something. */
async function letIn(
  receiveOpening: ReceiveOpening,
  onChannel: (channel: ByteChannel | undefined) => void,
  record: ConnectionRecord,
  context: ConnectionContext,
): Promise<Session | undefined> {
  let channel: ByteChannel | undefined;
  const receiving = receiveOpening((current) => {
    channel = current;
    onChannel(current);
  });
  const opening = await withDeadline(receiving, {
    delay_ms: context.timeouts.handshake_timeout_ms,
    error: refusals.handshakeTimeout,
    signal: context.draining,
  });
  record.tls = opening.tls?.protocol ?? undefined;
  context.guard.connect(record.peer);
  const { packet } = opening;
  if (packet.kind !== 'cancel') return openSession(channel!, packet, opening, record, context);
  await context.cancel({ key: packet.key, peer: record.peer });
  await closeGently(channel!.stream, Buffer.alloc(0), context.timeouts.linger_timeout_ms);
  return undefined;
}

async function openSession(
  channel: ByteChannel,
  startup: Startup,
  { tls, servername, cleartext }: Opening,
  record: ConnectionRecord,
  context: ConnectionContext,
): Promise<Session> {
  const request = readRequest(startup, record);
  if (!tls && (context.require_tls || !isLoopback(record.peer))) throw refusals.insecure();
  const { option, point } = request;
  const route = chooseRoute({ servername, option, point }, context.domain);
  record.endpoint_id = route && routeTarget(route);
  record.pooled = route?.pooled;
  if (startup.negotiate) channel.write(negotiateProtocolVersion(startup.version, startup.unknown_options));

  const started = performance.now();
  const applicant = { user: request.user, route, point, channelBinding: tls?.channelBinding, cleartext };
  const attempt = context.guard.attempt(record.peer, record.endpoint_id, context, (guarded) =>
    authenticate(channel, applicant, guarded),
  );
  const authenticated = await withDeadline(attempt, {
    delay_ms: context.timeouts.authentication_timeout_ms,
    error: refusals.authenticationTimeout,
    signal: AbortSignal.any([context.draining, channel.gone]),
  });
  record.authentication_ms = performance.now() - started;
  record.endpoint_id = routeTarget(authenticated.route);
  record.pooled = authenticated.route.pooled;
  const { destination } = authenticated;
  const pooled = authenticated.route.pooled && 'endpoint_id' in destination;
  if (pooled && request.logical) throw refusals.pooledReplication();
  checkAddress(record.peer, destination.access);
  const sessions_max = 'sessions_max' in destination ? destination.sessions_max : undefined;
  context.onAuthenticated(routeTarget(authenticated.route), { pooled, sessions_max });
  if ('disabled' in destination && destination.disabled) throw refusals.endpointDisabled(destination.endpoint_id);
  if ('point' in destination && request.logical) throw refusals.replicationOfPast();
  channel.write(authenticationOk());
  const access = accessTo(authenticated.route, context.directory);
  if (pooled) {
    return openPooled(channel, { ...pooledRequest(destination, request, authenticated), access }, record, context);
  }
  const { compute, endpoint_id } = await reachCompute(channel, request, authenticated, record, context);
  return directSession(channel, { ...compute, endpoint_id, access }, request, record, context);
}

/** Who may come to where a client went, asked anew each time. Made here, for it to hold nothing else of the login. */
const accessTo = (route: Route, directory: Directory): CancelTarget['access'] => {
  return async () => (await findDestination(route, directory))?.access;
};

function directSession(
  channel: ByteChannel,
  compute: JoinedCompute,
  { startup, logical }: Pick<Request, 'startup' | 'logical'>,
  record: ConnectionRecord,
  context: ConnectionContext,
): Session {
  const { version } = startup;
  return async () => {
    try {
      await joinCompute(channel, compute, { version, logical }, record, context);
    } finally {
      compute.stream.destroy();
    }
  };
}

function readRequest(startup: Startup, record: ConnectionRecord): Request {
  const { user = '', database = '', options = '', replication, ...others } = Object.fromEntries(startup.parameters);
  record.user = loggable(user);
  record.database = loggable(database || user);
  record.application_name = loggable(others.application_name);
  if (user === '') throw refusals.userMissing();
  const mode = parseReplication(replication);
  if (mode === 'physical') throw refusals.physicalReplication();
  const { endpoint, platform, forwarded } = parseStartupOptions(options);
  const parameters = new Map([
    ['user', user],
    ['database', database || user],
  ]);
  if (mode === 'logical') {
    record.replication = mode;
    parameters.set('replication', 'database');
  }
  if (forwarded) parameters.set('options', forwarded);
  for (const [name, value] of Object.entries(others)) parameters.set(name, value);
  return { startup, user, parameters, option: endpoint, point: readPoint(platform), logical: mode === 'logical' };
}

function pooledRequest(
  entry: EndpointEntry,
  { startup, user, parameters }: Request,
  { keys }: Authenticated,
): Omit<PooledRequest, 'access'> {
  const { user: _user, database, ...others } = Object.fromEntries(parameters);
  return {
    entry,
    user,
    database: database!,
    keys,
    parameters: new Map(Object.entries(others)),
    version: startup.version,
  };
}

async function reachCompute(
  channel: ByteChannel,
  { user, parameters }: Request,
  { destination, keys }: Authenticated,
  record: ConnectionRecord,
  context: ConnectionContext,
): Promise<{ compute: ComputeSession; endpoint_id: EndpointId }> {
  const late = new AbortController();
  const patience = wakePatience(late, context.timeouts.wake_timeout_ms);
  const signal = AbortSignal.any([context.draining, channel.gone, late.signal]);
  try {
    const times = record;
    const find = async () => {
      if (!('point' in destination)) return destination;
      using _told = tellOfArchive(channel, destination.branch_id, patience, context);
      return await travel({ ...destination, user, times }, context.waker, signal);
    };
    const entry = await find();
    using _told = tellOfArchive(channel, entry.endpoint_id, patience, context);
    const compute = await connectCompute({ entry, parameters, keys, times }, context.waker, signal);
    context.measures.connected(record.endpoint_id, record);
    return { compute, endpoint_id: entry.endpoint_id };
  } catch (error) {
    // The compute knows another password than the directory does.
    if ('endpoint_id' in destination && error instanceof ComputeRefusal && error.fields.code === '28P01') {
      await context.directory.role(destination.endpoint_id, user, { refresh: true }).catch(() => undefined);
    }
    throw error;
  } finally {
    patience.end();
  }
}

interface Patience {
  extend(timeout_ms: number): void;
  end(): void;
}

/** Aborts when the time is over that a client waits for its compute. */
function wakePatience(late: AbortController, timeout_ms: number): Patience {
  const start = (ms: number) => setTimeout(() => late.abort(refusals.wakeTimeout()), ms);
  let timer = start(timeout_ms);
  return {
    extend: (ms) => {
      clearTimeout(timer);
      timer = start(ms);
    },
    end: () => clearTimeout(timer),
  };
}

/** A client whose branch comes back from the archive hears why it waits, unless that is done soon; and waits longer. */
function tellOfArchive(
  channel: ByteChannel,
  id: EndpointId | BranchId,
  patience: Patience,
  { waker, timeouts }: ConnectionContext,
): Disposable {
  let over = false;
  const tell = async () => {
    const comes = await waker.comesFromArchive(id).catch(() => false);
    if (over || !comes || channel.failed) return;
    patience.extend(timeouts.archive_timeout_ms);
    const message = 'the branch is being brought back from the archive; this may take a while';
    channel.write(noticeResponse({ severity: 'NOTICE', code: '00000', message }));
  };
  const timer = setTimeout(() => void tell(), timeouts.archive_notice_ms);
  return {
    [Symbol.dispose]: () => {
      over = true;
      clearTimeout(timer);
    },
  };
}

interface JoinedCompute extends ComputeSession, Pick<CancelTarget, 'access'> {
  readonly endpoint_id: EndpointId;
}

async function joinCompute(
  channel: ByteChannel,
  compute: JoinedCompute,
  { version, logical }: { readonly version: number; readonly logical: boolean },
  record: ConnectionRecord,
  context: ConnectionContext,
): Promise<void> {
  const { access, endpoint_id } = compute;
  const target = compute.key && { endpoint_id, key: compute.key };
  const cancel = () => cancelQuery(target!, context.waker);
  const issued = target && context.cancelKeys.issue({ access, cancel }, version);
  const forget = target && context.direct.add(endpoint_id, target.key.process_id);
  const client = channel.stream;
  const filter = logical ? replicationFilter() : undefined;
  const early = channel.release();
  let stopWaiting: (() => void) | undefined;
  try {
    if (channel.failed) throw new ClientGone();
    context.draining.throwIfAborted();
    stopWaiting = whenAborted(context.stopping, () => client.destroy());
    greet(client, compute, issued);
    if (early.length > 0) {
      record.bytes_in += early.length;
      compute.stream.write(filter ? filter(early) : early);
    }
    record.connected = true;
    const end = await splice(client, compute.stream, {
      counters: record,
      timeouts: context.timeouts,
      filter,
      raw: context.raw_splice,
    });
    record.reason = end.side === 'client' ? 'client' : 'compute';
    if (end.error || end.abandoned) record.error_kind = end.side === 'client' ? 'clientdisconnect' : 'compute';
    if (end.error) record.error_message = end.error.message;
    if (context.draining.aborted) record.error_kind = 'shutdown';
    // Nobody waits for the answer any more, and a query that runs on would keep the compute awake.
    if (end.abandoned && target) await cancel();
  } finally {
    stopWaiting?.();
    forget?.();
    issued?.release();
  }
}

function replicationFilter(): (chunk: Buffer) => Buffer {
  const filter = new ReplicationFilter();
  return (chunk) => filter.push(chunk);
}

/** Passes on what the compute said at the login, with our key in place of its own, in one write. */
function greet(client: Duplex, { greeting, rest }: ComputeSession, issued: IssuedKey | undefined): void {
  client.write(Buffer.concat([...greeting, ...(issued ? [backendKeyData(issued)] : []), rest]));
}
