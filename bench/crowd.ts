import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Between, Login, SslMode } from './between.ts';

/** Whom the clients of a crowd log in to, and how. */
export interface CrowdTarget {
  readonly between: Pick<Between, 'port' | 'options'>;
  readonly login: Login;
  readonly sslmode: SslMode;
}

/** What can be asked of the process that holds the clients. */
export type CrowdJob =
  | { readonly what: 'open'; readonly target: CrowdTarget; readonly count: number }
  | { readonly what: 'select' }
  | { readonly what: 'storm'; readonly target: CrowdTarget; readonly count: number }
  | { readonly what: 'churn'; readonly target: CrowdTarget; readonly duration_ms: number }
  | { readonly what: 'query'; readonly target: CrowdTarget; readonly connections: number; readonly duration_ms: number }
  | { readonly what: 'close' };

/** Of everything that was tried: how long what went well took, and what went wrong, by its message. */
export interface CrowdResult {
  readonly latencies_ms: readonly number[];
  readonly failures: readonly string[];
  readonly took_ms: number;
}

/**
 * Many clients in a process of their own, so that they do not weigh on who measures.
 *
 * - `open` logs clients in and keeps them; `select` lets each of them run a statement; `close` closes them.
 * - `storm` opens so many at once, each with a statement, keeps them, and times each from the connect to its first row.
 * - `churn` logs in and closes for a while, some at a time.
 * - `query` runs a statement again and again by `pg`, over connections that are kept.
 */
export interface Crowd extends AsyncDisposable {
  /** Rejects when the process has ended. One job at a time. */
  run(job: CrowdJob): Promise<CrowdResult>;
}

const PROGRAM = fileURLToPath(new URL('./crowd-process.ts', import.meta.url));

/** Starts the process; its clients go with it. */
export async function startCrowd(): Promise<Crowd> {
  const child = fork(PROGRAM, { serialization: 'advanced' });
  const ended = once(child, 'exit').then(([code, signal]) => {
    throw new Error(`the process with the clients ended: ${code ?? signal}`);
  });
  ended.catch(() => undefined);
  await Promise.race([once(child, 'spawn'), ended]);
  return {
    async run(job) {
      const answered = once(child, 'message');
      child.send(job);
      const [answer] = await Promise.race([answered, ended]);
      return answer;
    },
    [Symbol.asyncDispose]: () => end(child),
  };
}

/** Throws unless everything that a crowd tried went well. */
export function assertAllServed({ latencies_ms, failures }: CrowdResult, what: string): void {
  if (failures.length === 0) return;
  const [first] = failures;
  throw new Error(`${what}: ${failures.length} failed and ${latencies_ms.length} did not; the first: ${first}`);
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}
