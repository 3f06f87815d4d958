import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type ComputeSpec, ComputeStartError } from '../contract.ts';
import { type ComputeLayout, serverArguments } from './layout.ts';
import { identifyProcess, isSameProcess, type ProcessIdentity } from './processes.ts';
import { serverFile } from './server.ts';
import { openLog, tailLines } from './server-log.ts';

/** Lines of a failed start that its error carries. */
const ERROR_LINES = 20;

export interface SpawnedServer {
  readonly child: ChildProcess;
  readonly pid: number;
  /** undefined when it ended at once. */
  readonly server?: ProcessIdentity;
  /** Seconds since 1970, by our clock. */
  readonly began_seconds: number;
}

/**
 * Starts the server's first process directly, so that it is ready without another program's polling: in a session of
 * its own and with its log going to a file, so that it outlives us; with nothing in its environment, since a customer
 * who reaches the shell reads it.
 */
export async function spawnServer(
  spec: ComputeSpec,
  layout: ComputeLayout,
  standby: Parameters<typeof serverArguments>[2],
): Promise<SpawnedServer> {
  const program = join(spec.distribution.root, 'bin/postgres');
  const began_seconds = Date.now() / 1000;
  const log = openLog(layout.log);
  let child: ChildProcess;
  try {
    child = spawn(program, serverArguments(layout, spec.data_directory, standby), {
      ...spec.owner,
      cwd: '/',
      env: {},
      detached: true,
      stdio: ['ignore', log, log],
    });
  } finally {
    closeSync(log);
  }
  if (child.pid === undefined) {
    const error = await new Promise<Error>((resolve) => child.once('error', resolve));
    throw new Error(`${program} does not run (${error.message})`);
  }
  child.unref();
  return { child, pid: child.pid, server: identifyProcess(child.pid), began_seconds };
}

/** How one that was waited for ended. */
export class ServerEnded extends Error {}

/** ~1 ms while an ordinary start takes, then rarer: a recovery may take minutes. */
const pauseAfter = (waited_ms: number): number => (waited_ms < 300 ? 1 : waited_ms < 3000 ? 5 : 25);

/** How a server is once it has started: one that recovers with `hot_standby` off takes no connections before it is promoted. */
export type StartedState = 'running' | 'recovering' | 'stopping';

/** Resolves when the server takes connections, or will take none while it recovers. Rejects when it ends or the signal is aborted. */
export async function untilReady(
  server: ProcessIdentity,
  { data_directory, began_seconds, signal }: { data_directory: string; began_seconds: number; signal: AbortSignal },
): Promise<StartedState> {
  const begin = Date.now();
  for (;;) {
    const status = serverFile(server, data_directory, began_seconds)?.status;
    if (status === 'ready') return 'running';
    if (status === 'standby') return 'recovering';
    if (status === 'stopping') return 'stopping';
    if (!isSameProcess(server)) throw new ServerEnded('the server ended');
    signal.throwIfAborted();
    await delay(pauseAfter(Date.now() - begin));
  }
}

/** Why a start failed, for people: what happened and what the server said since `log_offset`, without secrets. */
export function startError(
  { id, log }: ComputeLayout,
  log_offset: number,
  cause: unknown,
  child?: ChildProcess,
): ComputeStartError {
  if (cause instanceof ComputeStartError) return cause;
  const lines = tailLines(log, ERROR_LINES, log_offset);
  // The last complaint is the reason, and hints may follow it.
  const reason = lines.findLast((line) => /\b(FATAL|PANIC|ERROR):/.test(line)) ?? lines.at(-1);
  const what =
    cause instanceof ServerEnded
      ? `its server ended while starting${describeExit(child)}`
      : cause instanceof Error && /^(AbortError|TimeoutError)$/.test(cause.name)
        ? `it was not ready in time (${cause.message})`
        : cause instanceof Error
          ? cause.message
          : String(cause);
  return new ComputeStartError(`compute ${id} could not start: ${what}${reason ? `: ${reason}` : ''}`, lines);
}

function describeExit(child?: ChildProcess): string {
  if (child?.signalCode) return ` (${child.signalCode})`;
  return child?.exitCode == null ? '' : ` (exit code ${child.exitCode})`;
}
