import { setTimeout as delay } from 'node:timers/promises';
import type { StopMode } from '../contract.ts';
import {
  childrenOf,
  commandLine,
  identifyProcess,
  isSameProcess,
  type ProcessIdentity,
  signalProcess,
} from './processes.ts';
import { processesIn } from './server.ts';

/** How long each stage of a stop may take before the next begins. */
export interface StopDeadlines {
  /** Fast shutdown: clients are sent away, a checkpoint is written, and streaming replicas get the rest of the WAL. */
  readonly fast_ms: number;
  /** The same without its replicas, so that only the checkpoint is waited for. */
  readonly without_replicas_ms: number;
  /** Immediate shutdown. Postgres itself kills what does not end within 5 s. */
  readonly immediate_ms: number;
  /** After SIGKILL; a process that stays is held by the kernel, mostly by a disk that does not answer. */
  readonly kill_ms: number;
}

export const STOP_DEADLINES: StopDeadlines = {
  fast_ms: 5000,
  without_replicas_ms: 25_000,
  immediate_ms: 8000,
  kill_ms: 10_000,
};

const WALSENDERS_EVERY_MS = 500;
const POLL_MS = { first: 1, max: 10 };

/** True as soon as the process is gone, false when the time is over. */
async function hasEnded(server: ProcessIdentity, timeout_ms: number): Promise<boolean> {
  const deadline = Date.now() + timeout_ms;
  for (let pause_ms = POLL_MS.first; isSameProcess(server); pause_ms = Math.min(pause_ms * 1.3, POLL_MS.max)) {
    if (Date.now() >= deadline) return false;
    await delay(pause_ms);
  }
  return true;
}

/** The title is `postgres: walsender ...`, or `postgres: <cluster_name>: walsender ...`. */
function endWalsenders(server: ProcessIdentity): void {
  for (const pid of childrenOf(server.pid)) {
    const child = identifyProcess(pid);
    if (child && /^postgres: (.*: )?walsender /.test(commandLine(pid)[0] ?? '')) signalProcess(child, 'SIGTERM');
  }
}

/**
 * Ends a server, gently first. A streaming replica that takes nothing any more holds a fast shutdown, so its walsender
 * is ended after a while; after that the shutdown checkpoint is given up, which costs a recovery at the next start.
 *
 * @returns whether the server ended in good order; it has then seen to its children itself
 */
export async function stopServer(server: ProcessIdentity, mode: StopMode, deadlines: StopDeadlines): Promise<boolean> {
  if (mode === 'staged') {
    signalProcess(server, 'SIGINT');
    if (await hasEnded(server, deadlines.fast_ms)) return true;
    const deadline = Date.now() + deadlines.without_replicas_ms;
    while (Date.now() < deadline) {
      endWalsenders(server);
      if (await hasEnded(server, Math.min(WALSENDERS_EVERY_MS, deadline - Date.now()))) return true;
    }
  }
  signalProcess(server, 'SIGQUIT');
  if (await hasEnded(server, deadlines.immediate_ms)) return false;
  signalProcess(server, 'SIGKILL');
  if (await hasEnded(server, deadlines.kill_ms)) return false;
  throw new Error(`the server with pid ${server.pid} does not end after SIGKILL; is its disk answering?`);
}

/** What outlived its server: children that were busy when it was killed, and programs that they had started. */
export interface Leftovers {
  readonly data_directory: string;
  readonly owner?: { readonly uid: number };
  /** Those in the compute's control group. */
  members(): ProcessIdentity[];
}

/** Ends what is left after a server has ended. Nobody waits for it, so it is killed. */
export async function endLeftovers(leftovers: Leftovers, deadlines: StopDeadlines): Promise<void> {
  const { data_directory, owner, members } = leftovers;
  const deadline = Date.now() + deadlines.kill_ms;
  for (let pause_ms = POLL_MS.first; ; pause_ms = Math.min(pause_ms * 1.5, POLL_MS.max)) {
    const left = [...(await processesIn(data_directory, owner?.uid)), ...members()];
    if (left.length === 0) return;
    if (Date.now() >= deadline) {
      const pids = left.map(({ pid }) => pid).join(', ');
      throw new Error(`processes ${pids} of ${data_directory} do not end after SIGKILL; is the disk answering?`);
    }
    for (const one of left) signalProcess(one, 'SIGKILL');
    await delay(pause_ms);
  }
}
