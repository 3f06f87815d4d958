import type { IncomingMessage, ServerResponse } from 'node:http';
import type { BranchId, EndpointId } from '../../domain/ids.ts';
import { checkAddress } from '../allow-list.ts';
import type { Authenticated } from '../authenticate.ts';
import type { ByteBudget } from '../byte-budget.ts';
import { travel } from '../connect-compute.ts';
import { type ConnectionRecord, loggable, recordError } from '../connection-record.ts';
import type { EndpointEntry, Waker } from '../contract.ts';
import { withDeadline } from '../deadline.ts';
import type { LoginGuard } from '../login-guard.ts';
import { isLoopback } from '../peer.ts';
import type { ServerLease, ServerPools } from '../pool/contract.ts';
import { ClientGone, ComputeRefusal, refusals, toRefusal } from '../refusal.ts';
import { routeTarget } from '../route.ts';
import { whenAborted } from '../when-aborted.ts';
import { type ConnectionString, readConnectionString } from './connection-string.ts';
import { type LetInContext, letIn } from './let-in.ts';
import { readBody } from './request-body.ts';
import { JsonPieces } from './result-json.ts';
import { runSql } from './run-sql.ts';
import { type Answer, sendAnswer, sendRefusal } from './sql-answer.ts';
import { serverError } from './sql-error.ts';
import { readSqlOptions, readSqlRequest, type SqlOptions, type SqlRequest } from './sql-request.ts';
import { tlsOf } from './tls-of-request.ts';

/** What all requests of a gateway share. */
export interface SqlContext extends LetInContext {
  readonly domain: string;
  readonly require_tls: boolean;
  readonly waker: Waker;
  readonly pools: ServerPools;
  readonly guard: LoginGuard;
  /** What all requests and answers hold. */
  readonly budget: ByteBudget;
  readonly timeouts: {
    readonly handshake_timeout_ms: number;
    readonly authentication_timeout_ms: number;
    readonly wake_timeout_ms: number;
    readonly flush_timeout_ms: number;
  };
  readonly limits: { readonly sql_request_bytes: number; readonly sql_response_bytes: number };
  /** Aborts when nobody new is let in any more. */
  readonly draining: AbortSignal;
  /** Aborts when every request has to end. */
  readonly stopping: AbortSignal;
  /** Called once a client has proved who it is. Throws a Refusal when the endpoint has too many. */
  onAuthenticated(id: EndpointId | BranchId): void;
}

/** What a request holds of the memory that all share. */
interface Holding {
  hold(bytes: number): void;
  release(): void;
}

/** Serves one `POST /sql`, and fills in `record`. Never throws. */
export async function serveSql(
  request: IncomingMessage,
  response: ServerResponse,
  record: ConnectionRecord,
  context: SqlContext,
): Promise<void> {
  const holding = holdingOf(context.budget);
  const left = new AbortController();
  response.once('close', () => {
    holding.release();
    if (!response.writableFinished) left.abort(new ClientGone());
  });
  // Signals of signals cost a request as much as its SQL.
  const forget = whenAborted(context.stopping, () => left.abort(context.stopping.reason));
  try {
    context.draining.throwIfAborted();
    const answer = await answerSql(request, record, holding, { ...context, signal: left.signal });
    await sendAnswer(response, answer, record.session_id, context.timeouts.flush_timeout_ms);
  } catch (error) {
    const refusal = toRefusal(error);
    recordError(record, refusal);
    if (refusal instanceof ClientGone) {
      response.destroy();
      return;
    }
    await sendRefusal(response, refusal, record.session_id, context.timeouts.flush_timeout_ms);
  } finally {
    forget();
  }
}

function holdingOf(budget: ByteBudget): Holding {
  let held_bytes = 0;
  return {
    hold(bytes) {
      if (!budget.take(bytes)) throw refusals.tooMuchHeld();
      held_bytes += bytes;
    },
    release() {
      budget.give(held_bytes);
      held_bytes = 0;
    },
  };
}

type RequestContext = SqlContext & { readonly signal: AbortSignal };

async function answerSql(
  request: IncomingMessage,
  record: ConnectionRecord,
  holding: Holding,
  context: RequestContext,
): Promise<Answer> {
  const { signal, limits, timeouts } = context;
  const tls = tlsOf(request);
  record.tls = tls?.protocol ?? undefined;
  if (!tls && (context.require_tls || !isLoopback(record.peer))) throw refusals.insecure();
  const wanted = readHeaders(request, record, context.domain);
  const options = readSqlOptions(request.headers);

  const started = performance.now();
  const attempt = context.guard.attempt(record.peer, record.endpoint_id, context, (guarded) =>
    letIn(wanted, request.headers.authorization, guarded),
  );
  const authenticated = await withDeadline(attempt, {
    delay_ms: timeouts.authentication_timeout_ms,
    error: refusals.authenticationTimeout,
    signal,
  });
  record.authentication_ms = performance.now() - started;
  const { destination } = authenticated;
  checkAddress(record.peer, destination.access);
  context.onAuthenticated(routeTarget(authenticated.route));
  if ('disabled' in destination && destination.disabled) throw refusals.endpointDisabled(destination.endpoint_id);

  const hold = (bytes: number) => {
    record.bytes_in += bytes;
    holding.hold(bytes);
  };
  const timeout_ms = timeouts.handshake_timeout_ms;
  const text = await readBody(request, { limit_bytes: limits.sql_request_bytes, timeout_ms, hold, signal });
  const wish = readSqlRequest(text, options);
  for (let attempt = 1; ; attempt++) {
    const server = await reachServer(wanted, authenticated, record, context);
    const run = { record, holding, context, claims: authenticated.claims, last: attempt === ATTEMPTS };
    const answer = await runOn(server, wish, options, run);
    if (answer) return answer;
  }
}

/** A compute may go to sleep at the moment in which a request comes; the next one that it meets has just been woken. */
const ATTEMPTS = 2;

function readHeaders({ headers }: IncomingMessage, record: ConnectionRecord, domain: string): ConnectionString {
  const text = headers['neon-connection-string'];
  if (typeof text !== 'string') throw refusals.connectionStringMissing();
  const wanted = readConnectionString(text, domain);
  record.user = loggable(wanted.user);
  record.database = loggable(wanted.database);
  record.application_name = loggable(wanted.parameters.get('application_name'));
  record.endpoint_id = routeTarget(wanted.route);
  record.pooled = wanted.route.pooled;
  return wanted;
}

/** A connection to the compute, which is woken where it sleeps. */
async function reachServer(
  { user, database, parameters }: ConnectionString,
  { destination, keys }: Authenticated,
  record: ConnectionRecord,
  { waker, pools, directory, timeouts, signal }: RequestContext,
): Promise<ServerLease> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(refusals.wakeTimeout()), timeouts.wake_timeout_ms);
  const leave = () => late.abort(signal.reason);
  signal.addEventListener('abort', leave, { once: true });
  if (signal.aborted) leave();
  const patience = late.signal;
  try {
    const entry: EndpointEntry =
      'point' in destination ? await travel({ ...destination, user, times: record }, waker, patience) : destination;
    const lease = await pools.acquire({ entry, user, database, keys, parameters, times: record }, patience);
    record.connected = true;
    return lease;
  } catch (error) {
    // The compute knows another password than the directory does.
    if ('endpoint_id' in destination && error instanceof ComputeRefusal && error.fields.code === '28P01') {
      await directory.role(destination.endpoint_id, user, { refresh: true }).catch(() => undefined);
    }
    throw error;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', leave);
  }
}

interface Run {
  readonly record: ConnectionRecord;
  readonly holding: Holding;
  readonly context: RequestContext;
  readonly claims: string | undefined;
  /** Whether it is not tried again. */
  readonly last: boolean;
}

/** The answer; undefined when the server did not hear of the request and it may be tried again. */
async function runOn(
  server: ServerLease,
  request: SqlRequest,
  options: SqlOptions,
  { record, holding, context, claims, last }: Run,
): Promise<Answer | undefined> {
  const limit_bytes = context.limits.sql_response_bytes;
  const pieces = new JsonPieces((bytes) => {
    record.bytes_out += bytes;
    if (record.bytes_out > limit_bytes) throw refusals.responseTooLarge(limit_bytes);
    holding.hold(bytes);
  });
  const running = runSql(server, request, options, { pieces, limit_bytes, claims });
  try {
    const { failure, status } = await untilAborted(running, context.signal);
    server.release(status === 'I' ? 'clean' : 'broken');
    if (status === 'unheard' && !last) return undefined;
    if (!failure) return { status: 200, headers: options.applied, body: pieces.take() };
    const error = serverError(failure);
    record.error_kind = 'user';
    record.error_code = failure.get('C');
    return { ...error, headers: {}, body: [Buffer.from(error.body)] };
  } catch (error) {
    // Nobody waits for the answer any more, and a query that runs on would keep the compute awake.
    await server.cancel().catch(() => undefined);
    server.release('broken');
    throw error;
  }
}

/** The outcome of `work`, or the reason of the signal if that comes first; what comes of the work then is not waited for. */
function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  return promise;
}
