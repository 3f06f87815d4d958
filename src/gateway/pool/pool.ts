import type { PoolView } from '../../domain/endpoint-connections.ts';
import { LIMITS } from '../../domain/limits.ts';
import { ComputeRefusal, refusals } from '../refusal.ts';
import type { CodeWatch } from './code-watch.ts';
import type { ServerConnection } from './server-connection.ts';
import { HARD_CLEANING, SOFT_CLEANING, TAINT, type Taint } from './session-state.ts';
import { StatementRegistry } from './statements.ts';
import type { Parameters } from './tracked-parameters.ts';

/** Somebody who waits for a server connection. Exactly one of `give` and `fail` is called, once, unless it stops waiting. */
export interface Waiter {
  give(server: ServerConnection, waited_ms: number): void;
  fail(error: unknown): void;
  /** Why it takes long; for the client. */
  tell(reason: string): void;
}

interface Waiting {
  readonly since: number;
  told: boolean;
}

/** What a pool needs of the endpoint that it belongs to. */
export interface PoolHost {
  readonly role: string;
  readonly database: string;
  readonly timeouts: {
    readonly wait_notice_ms: number;
    readonly wait_timeout_ms: number;
    readonly idle_ms: number;
    /** After the server had no room for another connection. */
    readonly full_retry_ms: number;
  };
  /** Whether the code of the pool's database could leave something in a session. */
  readonly code: CodeWatch;
  /**
   * Logs in to the compute. `onSlow` is called when it will take a while, with the reason and how long to wait for it.
   * Throws NotWanted in place of a wake when `isWanted` says that nobody waits any more.
   */
  connect(onSlow: (reason: string, patience_ms: number) => void, isWanted: () => boolean): Promise<ServerConnection>;
  /** Takes room for one more connection, for which an idle one of another pool may have to go. */
  takeRoom(): boolean;
  /** Gives that room back. */
  giveRoom(): void;
  /** Whether a connection must go, for another pool or for good. */
  isOneTooMany(own_waiting: number): boolean;
  /** A waiter more. Throws a Refusal when too many wait. */
  admitWaiter(): void;
  waiterLeft(): void;
  /** Somebody has waited so long, and has a connection now or will get none. */
  onWaited(duration_ms: number): void;
  onUnused(): void;
}

/** The compute went to sleep while a connection to it was opened for somebody who has found another, or has gone. */
export class NotWanted extends Error {}

const MAX_CANONICAL = 1000;

/**
 * The server connections of one endpoint, database, role, keys and start-up parameters. The last used one is lent first,
 * so that the others can be closed; whoever finds none waits in a queue.
 */
export class Pool {
  readonly statements = new StatementRegistry();
  /** What servers reported when they had just logged in. */
  greeting: ReadonlyMap<string, string> | undefined;
  readonly #host: PoolHost;
  /** How the server wrote a parameter's value that a client had written in its own way. */
  readonly #canonical = new Map<string, string>();
  readonly #servers = new Set<ServerConnection>();
  readonly #idle: ServerConnection[] = [];
  readonly #waiting = new Map<Waiter, Waiting>();
  #openings = 0;
  #holders = 0;
  /** The server had no room for more than this many, when it was last asked for one. */
  #ceiling = Number.POSITIVE_INFINITY;
  #refused_at = 0;
  #patience_ms = 0;
  #clock: NodeJS.Timeout | undefined;
  #clock_due = 0;
  #expiry: NodeJS.Timeout | undefined;

  constructor(host: PoolHost) {
    this.#host = host;
  }

  get server_count(): number {
    return this.#servers.size + this.#openings;
  }

  get waiting_count(): number {
    return this.#waiting.size;
  }

  /** Who has, or waits for, its connections at this moment. */
  view(): PoolView {
    let active = 0;
    for (const server of this.#servers) if (server.borrower) active++;
    const waiting = this.#waiting.size;
    const [longest] = this.#waiting.values();
    return {
      role: this.#host.role,
      database: this.#host.database,
      // One that just logs in may hold the pool and wait as well.
      clients: { active, waiting, idle: Math.max(0, this.#holders - active - waiting) },
      servers: { in_use: this.#servers.size - this.#idle.length, idle: this.#idle.length, opening: this.#openings },
      longest_wait_ms: longest ? performance.now() - longest.since : 0,
    };
  }

  /** The pool stays while it has holders. */
  hold(): void {
    this.#holders++;
  }

  letGo(): void {
    this.#holders--;
    this.#noteUnused();
  }

  /** An idle server connection at once; undefined when there is none, or others wait already. */
  take(): ServerConnection | undefined {
    return this.#waiting.size > 0 ? undefined : this.#idle.pop();
  }

  /** Throws a Refusal when too many wait. */
  wait(waiter: Waiter): void {
    this.#host.admitWaiter();
    const since = performance.now();
    this.#waiting.set(waiter, { since, told: false });
    const { wait_notice_ms } = this.#host.timeouts;
    // It may be set to when those are due who were told already.
    if (!this.#clock || this.#clock_due > since + wait_notice_ms) this.#setClock(wait_notice_ms);
    this.openMore();
  }

  stopWaiting(waiter: Waiter): void {
    if (this.#waiting.delete(waiter)) this.#host.waiterLeft();
    this.#noteUnused();
  }

  /** Takes a connection back that is idle: nothing to be answered, no transaction. Its borrower has forgotten it. */
  giveBack(server: ServerConnection): void {
    server.reclaim();
    server.opened_in = undefined;
    if (server.closed) return;
    const { code } = this.#host;
    if (server.changed_code) code.expire();
    const taint = Math.max(server.taint, code.level) as Taint;
    if (server.leaves || this.#host.isOneTooMany(this.#waiting.size)) this.discard(server);
    else if (taint === TAINT.none && server.cancels.size === 0 && !code.expired) this.#lend(server);
    else this.#refresh(server, taint).catch(() => this.discard(server));
  }

  /** Closes a connection that cannot be used again. */
  discard(server: ServerConnection): void {
    server.borrower = undefined;
    server.close();
    this.#forget(server);
  }

  /** Opens connections while somebody waits for one and there is room. */
  openMore(): void {
    const now = performance.now();
    if (this.server_count >= this.#ceiling && now - this.#refused_at >= this.#host.timeouts.full_retry_ms) {
      this.#refused_at = now;
      this.#ceiling = this.server_count + 1;
    }
    while (
      this.#openings < Math.min(this.#waiting.size, LIMITS.pool_openings) &&
      this.server_count < this.#ceiling &&
      this.#host.takeRoom()
    ) {
      void this.#open();
    }
  }

  /** Closes the connection that has been idle for the longest. False when none is idle. */
  closeIdle(): boolean {
    const oldest = this.#idle[0];
    if (oldest) this.discard(oldest);
    return oldest !== undefined;
  }

  get idle_since(): number {
    return this.#idle[0]?.idle_since ?? Number.POSITIVE_INFINITY;
  }

  /** Closes everything; who waits is told the reason. */
  close(reason: unknown): void {
    this.#failWaiting(reason);
    for (const server of this.#servers) {
      server.borrower = undefined;
      server.close();
      this.#forget(server);
    }
    clearTimeout(this.#clock);
    clearTimeout(this.#expiry);
  }

  async #open(): Promise<void> {
    this.#openings++;
    // Of many at once all may be refused, by the count of each other.
    const alone = this.#ceiling === 1 && this.server_count === 1;
    try {
      const server = await this.#host.connect(
        (reason, patience_ms) => this.#onSlow(reason, patience_ms),
        () => this.#waiting.size > 0,
      );
      this.#openings--;
      this.#servers.add(server);
      server.onGone = () => this.#forget(server);
      this.greeting = new Map<string, string>(server.parameters as Parameters);
      if (server.closed) this.#forget(server);
      // Whoever waited for it has gone; clients of another pool may have waited for nothing else.
      else if (this.#waiting.size === 0 && this.#host.isOneTooMany(0)) this.discard(server);
      else this.#lend(server);
      this.#raiseCeiling();
      // There may have been room for more than may be opened at a time.
      this.openMore();
    } catch (error) {
      this.#openings--;
      this.#host.giveRoom();
      const full = error instanceof ComputeRefusal && error.fields.code === '53300';
      // Others have taken what was left of the server's connections: wait for ours.
      if (full && this.#lowerCeiling(alone)) this.openMore();
      // Somebody may have come in between.
      else if (error instanceof NotWanted) this.openMore();
      else this.#failWaiting(error);
      this.#noteUnused();
    }
  }

  /**
   * After the server had no room. False when none of its connections is the pool's, so that there is nothing to wait for. It counts
   * the logins that it is about to refuse, too: of many at once all may be refused, so then one is tried alone.
   */
  #lowerCeiling(wasAlone: boolean): boolean {
    const { full_retry_ms } = this.#host.timeouts;
    this.#refused_at = performance.now();
    if (this.#clock && this.#clock_due > this.#refused_at + full_retry_ms) this.#setClock(full_retry_ms);
    this.#ceiling = Math.max(1, this.server_count);
    if (this.server_count > 0 || !wasAlone) return true;
    this.#ceiling = Number.POSITIVE_INFINITY;
    return false;
  }

  /** There was room for one more: there may be for another. */
  #raiseCeiling(): void {
    if (this.#ceiling === Number.POSITIVE_INFINITY) return;
    this.#ceiling = Math.max(this.#ceiling, this.server_count + 1);
  }

  #failWaiting(error: unknown): void {
    const waiters = [...this.#waiting.keys()];
    this.#waiting.clear();
    for (const waiter of waiters) {
      this.#host.waiterLeft();
      waiter.fail(error);
    }
  }

  /** To whoever waits longest, else to the idle ones. */
  #lend(server: ServerConnection): void {
    server.taint = TAINT.none;
    server.changed_code = false;
    const now = performance.now();
    const next = this.#waiting.entries().next();
    if (!next.done) {
      const [waiter, { since }] = next.value;
      this.#waiting.delete(waiter);
      this.#host.waiterLeft();
      this.#host.onWaited(now - since);
      waiter.give(server, now - since);
      return;
    }
    server.idle_since = now;
    this.#idle.push(server);
    this.#expiry ??= setTimeout(() => this.#expire(), this.#host.timeouts.idle_ms).unref();
    this.#noteUnused();
  }

  /** Makes a session as new, after cancels on their way have come to their end. */
  async #refresh(server: ServerConnection, taint: Taint): Promise<void> {
    while (server.cancels.size > 0) await Promise.allSettled(server.cancels);
    if (server.closed) return;
    if (taint === TAINT.lasting) return this.discard(server);
    const timer = setTimeout(() => this.discard(server), LIMITS.pool_own_query_timeout_ms);
    try {
      if (taint !== TAINT.none) {
        if (taint === TAINT.hard) server.statements.forget();
        const { error } = await server.ask(taint === TAINT.hard ? HARD_CLEANING : SOFT_CLEANING);
        if (error) return this.discard(server);
      }
      const { code } = this.#host;
      if (code.expired) await code.look(server);
    } finally {
      clearTimeout(timer);
    }
    if (server.closed) return;
    // The endpoint may have become smaller meanwhile.
    if (server.idle && !this.#host.isOneTooMany(this.#waiting.size)) this.#lend(server);
    else this.discard(server);
  }

  #forget(server: ServerConnection): void {
    if (!this.#servers.delete(server)) return;
    const index = this.#idle.indexOf(server);
    if (index >= 0) this.#idle.splice(index, 1);
    this.#ceiling = Number.POSITIVE_INFINITY;
    this.#host.giveRoom();
    this.#noteUnused();
  }

  #noteUnused(): void {
    if (this.#holders === 0 && this.#waiting.size === 0 && this.server_count === 0) {
      clearTimeout(this.#clock);
      clearTimeout(this.#expiry);
      this.#host.onUnused();
    }
  }

  #onSlow(reason: string, patience_ms: number): void {
    this.#patience_ms = Math.max(this.#patience_ms, patience_ms);
    for (const waiter of this.#waiting.keys()) waiter.tell(reason);
  }

  #setClock(delay_ms: number): void {
    clearTimeout(this.#clock);
    this.#clock_due = performance.now() + delay_ms;
    this.#clock = setTimeout(() => this.#onClock(), delay_ms);
  }

  /** Runs only while somebody waits. */
  #onClock(): void {
    this.openMore();
    const now = performance.now();
    const { wait_notice_ms, wait_timeout_ms, full_retry_ms } = this.#host.timeouts;
    const timeout_ms = Math.max(wait_timeout_ms, this.#openings > 0 ? this.#patience_ms : 0);
    // A server that had no room is asked again.
    let next_ms = this.server_count < this.#ceiling ? timeout_ms : this.#refused_at + full_retry_ms - now;
    for (const [waiter, waiting] of this.#waiting) {
      const waited_ms = now - waiting.since;
      if (waited_ms >= timeout_ms) {
        this.#waiting.delete(waiter);
        this.#host.waiterLeft();
        this.#host.onWaited(waited_ms);
        waiter.fail(refusals.poolWaitTimeout(timeout_ms));
      } else if (waited_ms >= wait_notice_ms && !waiting.told) {
        waiting.told = true;
        waiter.tell(this.#servers.size > 0 ? 'waiting for a free connection of the pool' : 'waiting for the compute');
        next_ms = Math.min(next_ms, timeout_ms - waited_ms);
      } else next_ms = Math.min(next_ms, (waiting.told ? timeout_ms : wait_notice_ms) - waited_ms);
    }
    this.#clock = undefined;
    if (this.#waiting.size > 0) this.#setClock(Math.max(1, next_ms));
    this.#noteUnused();
  }

  /** Closes what has been idle for long; runs only while something is idle. */
  #expire(): void {
    const { idle_ms } = this.#host.timeouts;
    const now = performance.now();
    while (this.#idle[0] && now - this.#idle[0].idle_since >= idle_ms) this.discard(this.#idle[0]);
    const oldest = this.#idle[0];
    this.#expiry = oldest && setTimeout(() => this.#expire(), idle_ms - (now - oldest.idle_since)).unref();
  }

  /** Remembers how the server writes a value. */
  learn(name: string, written: string, canonical: string): void {
    if (this.#canonical.size >= MAX_CANONICAL) this.#canonical.delete(this.#canonical.keys().next().value!);
    this.#canonical.set(`${name}=${written}`, canonical);
  }

  recall(name: string, written: string): string | undefined {
    return this.#canonical.get(`${name}=${written}`);
  }
}
