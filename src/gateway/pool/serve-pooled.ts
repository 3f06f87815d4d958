import type { Duplex } from 'node:stream';
import { LIMITS } from '../../domain/limits.ts';
import { backendKeyData } from '../../wire/backend-messages.ts';
import type { CancelKeys } from '../../wire/cancel-keys.ts';
import { cstring, message } from '../../wire/message.ts';
import type { ScramKeys } from '../../wire/scram.ts';
import type { ByteChannel } from '../byte-channel.ts';
import type { CancelTarget } from '../cancel-query.ts';
import type { ConnectTimes } from '../connect-compute.ts';
import { type ConnectionRecord, recordError } from '../connection-record.ts';
import type { EndpointEntry, Waker } from '../contract.ts';
import { ClientGone, Refusal, refusalResponse } from '../refusal.ts';
import { whenAborted } from '../when-aborted.ts';
import { waitForServer } from './lease.ts';
import type { Pool } from './pool.ts';
import { PooledClient } from './pooled-client.ts';
import type { Pools } from './pools.ts';
import type { ServerConnection } from './server-connection.ts';
import { type Parameters, setParameters, splitParameters } from './tracked-parameters.ts';

export interface PooledContext {
  readonly pools: Pools;
  readonly waker: Waker;
  readonly cancelKeys: CancelKeys<CancelTarget>;
  readonly timeouts: { readonly half_close_timeout_ms: number; readonly linger_timeout_ms: number };
  readonly raw_splice: boolean;
  /** Aborts when clients have to end as soon as they are in no transaction. */
  readonly draining: AbortSignal;
  readonly stopping: AbortSignal;
}

/** A client that has proved who it is, and was told so. */
export interface PooledRequest {
  readonly entry: EndpointEntry;
  readonly user: string;
  readonly database: string;
  readonly keys: ScramKeys;
  /** From where its cancel requests may come. */
  readonly access: CancelTarget['access'];
  /** Its start-up parameters but for user and database. */
  readonly parameters: ReadonlyMap<string, string>;
  /** The protocol version spoken with it. */
  readonly version: number;
}

const READY_FOR_QUERY = message('Z', Buffer.from('I'));
const parameterStatus = (name: string, value: string): Buffer =>
  message('S', Buffer.concat([cstring(name), cstring(value)]));

/**
 * Makes a client of a pooled host, which has been let in, ready for queries. Throws what ends the connection before.
 *
 * @returns what serves it to its last byte: to be called, and holding little, since thousands are served at a time
 */
export async function openPooled(
  channel: ByteChannel,
  request: PooledRequest,
  record: ConnectionRecord,
  context: PooledContext,
): Promise<() => Promise<void>> {
  const { entry, user, database, keys } = request;
  const { tracked, fixed } = splitParameters(request.parameters);
  const pool = context.pools.find({ entry, user, database, keys, parameters: fixed });
  pool.hold();
  try {
    const signal = AbortSignal.any([context.draining, channel.gone]);
    const reported = await welcome(pool, tracked, { times: record, signal });
    return sessionOf(greet(channel, request, { pool, reported, record, context }), record, context);
  } catch (error) {
    pool.letGo();
    throw error;
  }
}

/**
 * What the server reports to a client with these parameters. A server connection is needed only where nobody came before
 * who had the same; so a client may log in while the compute sleeps.
 */
async function welcome(
  pool: Pool,
  tracked: Parameters,
  { times, signal }: { times: ConnectTimes; signal: AbortSignal },
): Promise<Parameters> {
  const known = pool.greeting && recall(pool, tracked);
  if (known) return known;
  const started = performance.now();
  const server = await waitForServer(pool, { wish: {}, signal });
  addTimes(times, performance.now() - started, server);
  const sql = setParameters(tracked, server.parameters);
  if (sql !== undefined) {
    // A frozen server answers nothing; without it the question fails.
    const late = setTimeout(() => pool.discard(server), LIMITS.pool_own_query_timeout_ms);
    const { error } = await server.ask(sql).finally(() => clearTimeout(late));
    if (error) {
      pool.discard(server);
      throw new Refusal('user', error.code, error.message, { hint: error.hint });
    }
    for (const [name, written] of tracked) pool.learn(name, written, server.parameters.get(name) ?? written);
  }
  pool.giveBack(server);
  return recall(pool, tracked) ?? new Map([...pool.greeting!, ...tracked]);
}

/** Of the time that somebody waited for a connection, what its opening took; that may have begun for others. */
function addTimes(times: ConnectTimes, waited_ms: number, server: ServerConnection): void {
  const { wake_ms = 0, start_ms = 0 } = server.opened_in ?? {};
  const woken_ms = Math.min(wake_ms, waited_ms);
  const started_ms = Math.min(start_ms, waited_ms - woken_ms);
  times.wake_ms += woken_ms;
  times.start_ms += started_ms;
  times.connect_ms += waited_ms - woken_ms - started_ms;
}

function recall(pool: Pool, tracked: Parameters): Parameters | undefined {
  const reported = new Map(pool.greeting!);
  for (const [name, written] of tracked) {
    const canonical =
      name === 'application_name' || reported.get(name) === written ? written : pool.recall(name, written);
    if (canonical === undefined) return undefined;
    reported.set(name, canonical);
  }
  return reported;
}

/** A client that was told that it may ask. */
interface GreetedClient {
  readonly client: PooledClient;
  readonly stream: Duplex;
  /** What it has sent already. */
  readonly early: Buffer;
  /** Gives back what it has for as long as it is connected. */
  end(): void;
}

function greet(
  channel: ByteChannel,
  { entry, access, version }: PooledRequest,
  {
    pool,
    reported,
    record,
    context,
  }: {
    readonly pool: Pool;
    readonly reported: Parameters;
    readonly record: ConnectionRecord;
    readonly context: PooledContext;
  },
): GreetedClient {
  const { draining, stopping, cancelKeys, waker, raw_splice, timeouts } = context;
  const early = channel.release();
  if (channel.failed) throw new ClientGone();
  draining.throwIfAborted();
  const { stream } = channel;
  const client = new PooledClient({
    ...{ endpoint_id: entry.endpoint_id, pool, parameters: new Map(splitParameters(reported).tracked) },
    ...{ waker, counters: record, raw_splice, half_close_timeout_ms: timeouts.half_close_timeout_ms },
  });
  const issued = cancelKeys.issue({ access, cancel: () => client.cancel() }, version);
  const stopWaiting = [
    whenAborted(draining, () => client.drain(draining.reason)),
    whenAborted(stopping, () => client.stop(stopping.reason)),
  ];
  const statuses = Array.from(reported, ([name, value]) => parameterStatus(name, value));
  stream.write(Buffer.concat([...statuses, backendKeyData(issued), READY_FOR_QUERY]));
  record.connected = true;
  const end = () => {
    for (const stop of stopWaiting) stop();
    issued.release();
    pool.letGo();
  };
  return { client, stream, early, end };
}

const sessionOf =
  ({ client, stream, early, end }: GreetedClient, record: ConnectionRecord, { timeouts }: PooledContext) =>
  async (): Promise<void> => {
    try {
      const { abandoned, side, refusal } = await client.serve(stream, early);
      if (abandoned) record.error_kind = 'clientdisconnect';
      else if (side === 'server') record.error_kind = 'compute';
      if (refusal) recordError(record, refusal);
      const last = refusal ? refusalResponse(refusal, record.session_id) : Buffer.alloc(0);
      await client.close(last, timeouts.linger_timeout_ms);
    } finally {
      end();
    }
  };
