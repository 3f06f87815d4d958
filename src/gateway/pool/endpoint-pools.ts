import type { PoolView } from '../../domain/endpoint-connections.ts';
import type { EndpointId } from '../../domain/ids.ts';
import { LIMITS } from '../../domain/limits.ts';
import { connectCompute, type Reach } from '../connect-compute.ts';
import type { Directory, EndpointEntry, Waker } from '../contract.ts';
import type { Measures } from '../measures.ts';
import { ComputeRefusal, refusals } from '../refusal.ts';
import { CodeWatch } from './code-watch.ts';
import type { ServerWish } from './contract.ts';
import { NotWanted, Pool, type PoolHost } from './pool.ts';
import { ServerConnection } from './server-connection.ts';

export interface PoolsContext {
  readonly directory: Directory;
  readonly waker: Waker;
  readonly limits: {
    readonly wake_timeout_ms: number;
    readonly archive_notice_ms: number;
    readonly archive_timeout_ms: number;
    readonly pool_wait_notice_ms: number;
    readonly pool_wait_timeout_ms: number;
    readonly pool_server_idle_ms: number;
    readonly pool_full_retry_ms: number;
  };
  readonly raw_splice: boolean;
  /** Aborts when the gateway stops. */
  readonly stopping: AbortSignal;
  /** Sessions of an endpoint that take a server connection each. */
  directSessions(id: EndpointId): number;
  readonly measures: Measures;
}

type Wish = Omit<ServerWish, 'times' | 'onLongWait'>;

/** The pools of one endpoint, which share its server's connections: beyond them a pool's idle ones make room for another. */
export class EndpointPools {
  readonly #context: PoolsContext;
  readonly #onUnused: () => void;
  readonly #pools = new Map<string, Pool>();
  readonly #codes = new Map<string, CodeWatch>();
  #entry: EndpointEntry;
  /** Server connections, those included that are being opened. */
  #taken = 0;
  #waiting = 0;

  constructor(entry: EndpointEntry, context: PoolsContext, onUnused: () => void) {
    this.#entry = entry;
    this.#context = context;
    this.#onUnused = onUnused;
  }

  get server_count(): number {
    return this.#taken;
  }

  *views(): Iterable<PoolView> {
    for (const pool of this.#pools.values()) yield pool.view();
  }

  /** The pool for a wish, which `key` tells from others. */
  pool(key: string, wish: Wish): Pool {
    this.#entry = wish.entry;
    while (this.#taken > this.#size() && this.#closeIdlest());
    const known = this.#pools.get(key);
    if (known) return known;
    const made = new Pool(this.#hostOf(key, wish));
    this.#pools.set(key, made);
    return made;
  }

  close(reason: unknown): void {
    for (const pool of this.#pools.values()) pool.close(reason);
  }

  #hostOf(key: string, wish: Wish): PoolHost {
    const { pool_wait_notice_ms, pool_wait_timeout_ms, pool_server_idle_ms, pool_full_retry_ms } = this.#context.limits;
    return {
      role: wish.user,
      database: wish.database,
      timeouts: {
        wait_notice_ms: pool_wait_notice_ms,
        wait_timeout_ms: pool_wait_timeout_ms,
        idle_ms: pool_server_idle_ms,
        full_retry_ms: pool_full_retry_ms,
      },
      code: this.#codeOf(wish.database),
      connect: (onSlow, isWanted) => this.#connect(wish, onSlow, isWanted),
      takeRoom: () => this.#takeRoom(),
      giveRoom: () => {
        this.#taken--;
        // Not now: who gives room back may be about to use it.
        if (this.#waiting > 0) queueMicrotask(() => this.#openWhereWaited());
      },
      isOneTooMany: (own_waiting) => this.#isOneTooMany(own_waiting),
      admitWaiter: () => {
        if (this.#waiting >= LIMITS.pool_waiting) throw refusals.poolQueueFull();
        this.#waiting++;
      },
      waiterLeft: () => {
        this.#waiting--;
      },
      onWaited: (duration_ms) => this.#context.measures.waited(wish.entry.endpoint_id, duration_ms),
      onUnused: () => {
        this.#pools.delete(key);
        if (this.#pools.size === 0) this.#onUnused();
      },
    };
  }

  #codeOf(database: string): CodeWatch {
    const known = this.#codes.get(database) ?? new CodeWatch();
    this.#codes.set(database, known);
    return known;
  }

  /** Of the connections that customers may have, direct ones take theirs first. */
  #size(): number {
    const { endpoint_id, pool_size = LIMITS.pool_size_default, sessions_max } = this.#entry;
    if (sessions_max === undefined) return pool_size;
    return Math.max(1, Math.min(pool_size, sessions_max - this.#context.directSessions(endpoint_id)));
  }

  #takeRoom(): boolean {
    if (this.#taken >= this.#size() && !this.#closeIdlest()) return false;
    this.#taken++;
    return true;
  }

  #closeIdlest(): boolean {
    let idlest: Pool | undefined;
    for (const pool of this.#pools.values()) {
      if (pool.idle_since < (idlest?.idle_since ?? Number.POSITIVE_INFINITY)) idlest = pool;
    }
    return idlest?.closeIdle() ?? false;
  }

  /** The endpoint has become smaller, or clients of a pool wait that has none, or that could make better use of it. */
  #isOneTooMany(own_waiting: number): boolean {
    const size = this.#size();
    if (this.#taken > size) return true;
    if (this.#waiting === own_waiting || this.#taken < size) return false;
    for (const pool of this.#pools.values()) {
      if (pool.waiting_count > 0 && (pool.server_count === 0 || own_waiting === 0)) return true;
    }
    return false;
  }

  /** Those that have nothing first. */
  #openWhereWaited(): void {
    const waited = [...this.#pools.values()].filter((pool) => pool.waiting_count > 0);
    for (const pool of waited) if (pool.server_count === 0) pool.openMore();
    for (const pool of waited) pool.openMore();
  }

  async #wake(isWanted: () => boolean, ...asked: Parameters<Waker['wake']>): Promise<void> {
    if (!isWanted()) throw new NotWanted();
    await this.#context.waker.wake(...asked);
  }

  async #connect(wish: Wish, ...[onSlow, isWanted]: Parameters<PoolHost['connect']>): Promise<ServerConnection> {
    const { directory, limits, measures, raw_splice, stopping } = this.#context;
    const { waker } = this.#context;
    const wanted: Reach = { dial: (id) => waker.dial(id), wake: (...asked) => this.#wake(isWanted, ...asked) };
    const { endpoint_id } = wish.entry;
    const late = new AbortController();
    const expire = (delay_ms: number) => setTimeout(() => late.abort(refusals.wakeTimeout()), delay_ms);
    let timer = expire(limits.wake_timeout_ms);
    const archive = setTimeout(async () => {
      const comes = await waker.comesFromArchive(endpoint_id).catch(() => false);
      if (!comes || late.signal.aborted) return;
      clearTimeout(timer);
      timer = expire(limits.archive_timeout_ms);
      onSlow('the branch is being brought back from the archive; this may take a while', limits.archive_timeout_ms);
    }, limits.archive_notice_ms);
    try {
      const entry = wish.entry.past ? wish.entry : await directory.endpoint(endpoint_id);
      if (!entry) throw refusals.endpointGone();
      if (entry.disabled) throw refusals.endpointDisabled(endpoint_id);
      const parameters = new Map([['user', wish.user], ['database', wish.database], ...wish.parameters]);
      const times = { wake_ms: 0, start_ms: 0, connect_ms: 0 };
      const signal = AbortSignal.any([stopping, late.signal]);
      const session = await connectCompute({ entry, parameters, keys: wish.keys, times }, wanted, signal);
      measures.connected(endpoint_id, times);
      const server = await ServerConnection.open(session, raw_splice);
      server.opened_in = times;
      if (stopping.aborted) server.close();
      return server;
    } catch (error) {
      // The compute knows another password than the directory does.
      if (error instanceof ComputeRefusal && error.fields.code === '28P01') {
        await directory.role(endpoint_id, wish.user, { refresh: true }).catch(() => undefined);
      }
      throw error;
    } finally {
      late.abort();
      clearTimeout(timer);
      clearTimeout(archive);
    }
  }
}
