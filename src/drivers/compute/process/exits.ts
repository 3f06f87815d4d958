import type { ChildProcess } from 'node:child_process';
import { isSameProcess, type ProcessIdentity } from './processes.ts';

const POLL_MS = 250;

/** Tells when servers end: of those we started from their exit, of those we adopted by looking now and then. */
export class ExitWatch {
  readonly #watched = new Map<string, { server: ProcessIdentity; adopted: boolean }>();
  readonly #listeners = new Set<(id: string) => void>();
  #timer: NodeJS.Timeout | undefined;

  /** `child` when it is ours. Watching the same server again changes nothing. */
  watch(id: string, server: ProcessIdentity, child?: ChildProcess): void {
    const known = this.#watched.get(id)?.server;
    if (known?.pid === server.pid && known.start_ticks === server.start_ticks) return;
    this.#watched.set(id, { server, adopted: !child });
    if (!child) this.#poll();
    else if (child.exitCode === null && child.signalCode === null) child.once('exit', () => this.#ended(id, server));
    else setImmediate(() => this.#ended(id, server));
  }

  ids(): string[] {
    return [...this.#watched.keys()];
  }

  listen(listener: (id: string) => void): () => void {
    const own = (id: string) => listener(id);
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  #poll(): void {
    this.#timer ??= setInterval(() => {
      const adopted = [...this.#watched].filter(([, watched]) => watched.adopted);
      for (const [id, { server }] of adopted) if (!isSameProcess(server)) this.#ended(id, server);
      if (adopted.length > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    }, POLL_MS).unref();
  }

  #ended(id: string, server: ProcessIdentity): void {
    if (this.#watched.get(id)?.server !== server) return;
    this.#watched.delete(id);
    for (const listener of this.#listeners) listener(id);
  }
}
