import { LIMITS } from '../../domain/limits.ts';
import type { ServerConnection } from './server-connection.ts';
import { CODE_QUERY, TAINT, type Taint } from './session-state.ts';

/** The interval grows so that looking costs a session no more than this share of its time. */
const COST_SHARE = 0.01;

/**
 * Knows of one database whether code of its own could leave something in a session. Looks again now and then, while the
 * pool is used; what is made through the pool is looked at before the connection goes on.
 */
export class CodeWatch {
  /** Until somebody has looked, anything is possible. */
  level: Taint = TAINT.hard;
  #valid_until = 0;
  #looking = false;

  get expired(): boolean {
    return !this.#looking && performance.now() >= this.#valid_until;
  }

  expire(): void {
    this.#valid_until = 0;
  }

  /** Never throws; a database that cannot be read keeps its level, unless its server went away meanwhile. */
  async look(server: ServerConnection): Promise<void> {
    this.#looking = true;
    const started = performance.now();
    // What is changed while we look makes it expire again.
    this.#valid_until = Number.POSITIVE_INFINITY;
    const { values, error } = await server.ask(CODE_QUERY);
    this.#looking = false;
    const ended = performance.now();
    const interval_ms = Math.max(LIMITS.pool_code_check_interval_ms, (ended - started) / COST_SHARE);
    if (this.#valid_until > 0) this.#valid_until = ended + interval_ms;
    const found = Number(values[0]);
    if (server.closed) this.level = Math.max(this.level, TAINT.hard) as Taint;
    if (error) return;
    if (found === TAINT.none || found === TAINT.soft || found === TAINT.hard) this.level = found;
    else this.level = TAINT.lasting;
  }
}
