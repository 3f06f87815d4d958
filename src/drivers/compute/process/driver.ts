import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, realpathSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Duplex } from 'node:stream';
import type { ComputeUnits } from '../../../domain/compute-size.ts';
import type {
  ComputeCapabilities,
  ComputeDriver,
  ComputeObservation,
  ComputeRef,
  ComputeSpec,
  StopMode,
} from '../contract.ts';
import { bringDown, removeAll } from './bring-down.ts';
import { bringUp } from './bring-up.ts';
import { detectCgroups } from './cgroups.ts';
import { writeConfiguration } from './configuration.ts';
import { readPostmasterFile, wasShutDown } from './data-directory.ts';
import { dialSocket } from './dial.ts';
import { ExitWatch } from './exits.ts';
import { findRunning, type Host, type ProcessDriverLogger, scan } from './host.ts';
import { computeLayout, type DriverDirectories } from './layout.ts';
import { applySize, limitCpu } from './limits.ts';
import { startSeconds, worksIn } from './processes.ts';
import { promote } from './promote.ts';
import { readRecord, writeRecord } from './record.ts';
import { reload } from './reload.ts';
import { findServer } from './server.ts';
import { logSize, rotateLog, tailLines } from './server-log.ts';
import { startError } from './start.ts';
import { STOP_DEADLINES, type StopDeadlines } from './stop.ts';
import { Turns } from './turns.ts';

export interface ProcessDriverOptions extends DriverDirectories {
  readonly logger?: ProcessDriverLogger;
  readonly stop_deadlines?: Partial<StopDeadlines>;
  /** How often logs of running servers are looked at. */
  readonly rotate_every_ms?: number;
}

/** The driver, and what only processes of this machine have. */
export interface ProcessDriver extends ComputeDriver {
  /** Where a compute's Unix socket is. Throws when the path would be too long. */
  socketDirectory(id: string): string;
}

const NAME = 'process';
const ROTATE_EVERY_MS = 60_000;
/** Without a signal a start is given this long: recovery of a large volume takes minutes. */
const START_TIMEOUT_MS = 600_000;

/** Computes as processes of this machine. One driver at a time may own a state directory. */
export function createProcessDriver(options: ProcessDriverOptions): ProcessDriver {
  return new Processes(options);
}

class Processes implements ProcessDriver {
  readonly name = NAME;
  readonly capabilities: ComputeCapabilities;
  readonly #host: Host;
  readonly #turns = new Turns();
  #rotating = false;

  constructor({ stateDir, runDir, logger, stop_deadlines, rotate_every_ms = ROTATE_EVERY_MS }: ProcessDriverOptions) {
    mkdirSync(stateDir, { recursive: true, mode: 0o711 });
    const directories = { stateDir: realpathSync(stateDir), runDir: resolve(runDir) };
    const cgroups = detectCgroups(
      `coppice-${createHash('sha256').update(directories.stateDir).digest('hex').slice(0, 12)}`,
    );
    this.#host = {
      directories,
      cgroups,
      exits: new ExitWatch(),
      deadlines: { ...STOP_DEADLINES, ...stop_deadlines },
      logger,
      strays: new Map(),
    };
    this.capabilities = {
      limits_enforced: cgroups.problem === undefined,
      isolated_users: process.getuid?.() === 0,
    };
    if (cgroups.problem !== undefined) logger?.warn({ reason: cgroups.problem }, 'compute sizes are not enforced');
    setInterval(() => void this.#rotateLogs(), rotate_every_ms).unref();
  }

  async ensureRunning(spec: ComputeSpec, signal = AbortSignal.timeout(START_TIMEOUT_MS)): Promise<ComputeRef> {
    const layout = computeLayout(this.#host.directories, spec.id);
    const log_offset = logSize(layout.log);
    try {
      await this.#turns.take(spec.id, () => bringUp(this.#host, spec, layout, signal), signal);
    } catch (error) {
      throw startError(layout, log_offset, error);
    }
    return { driver: NAME, id: spec.id };
  }

  async ensureStopped({ id }: ComputeRef, mode: StopMode): Promise<void> {
    const layout = computeLayout(this.#host.directories, id);
    await this.#turns.take(id, () => bringDown(this.#host, layout, mode));
  }

  async ensurePromoted({ id }: ComputeRef, signal = AbortSignal.timeout(START_TIMEOUT_MS)): Promise<void> {
    const layout = computeLayout(this.#host.directories, id);
    const log_offset = logSize(layout.log);
    await this.#turns.take(id, async () => {
      const record = readRecord(layout.record);
      const server = record && findServer(layout, record);
      if (!server) throw new Error(`compute ${id} does not run`);
      await promote(server, record, signal).catch((error) => {
        throw startError(layout, log_offset, error);
      });
      // Until now somebody waited for it to recover, as for any start.
      limitCpu(this.#host, id, record.group ?? [], record.size);
    });
  }

  async ensureResized({ id }: ComputeRef, size: ComputeUnits): Promise<void> {
    const layout = computeLayout(this.#host.directories, id);
    await this.#turns.take(id, async () => {
      const record = readRecord(layout.record);
      if (!record) return;
      writeRecord(layout.record, { ...record, size });
      if (findServer(layout, record)) applySize(this.#host, id, record.group ?? [], size);
    });
  }

  async ensureConfigured({ id }: ComputeRef, files: ComputeSpec['files']): Promise<void> {
    const layout = computeLayout(this.#host.directories, id);
    await this.#turns.take(id, async () => {
      const record = readRecord(layout.record);
      // One that was never started here gets its files with its first start.
      if (!record) return;
      writeConfiguration(layout, files, record.owner);
      const server = findServer(layout, record);
      if (server) await reload(server, layout, record.data_directory);
    });
  }

  async ensureRemoved({ id }: ComputeRef): Promise<void> {
    const layout = computeLayout(this.#host.directories, id);
    await this.#turns.take(id, () => removeAll(this.#host, layout));
  }

  async observe({ id }: ComputeRef): Promise<ComputeObservation> {
    const layout = computeLayout(this.#host.directories, id);
    const record = readRecord(layout.record);
    const server = await findRunning(this.#host, layout, record);
    if (server) {
      this.#host.exits.watch(id, server);
      return { state: 'running', started_at: new Date(startSeconds(server) * 1000) };
    }
    if (!record) return { state: 'stopped' };
    const began = record.server !== undefined || readPostmasterFile(record.data_directory) !== undefined;
    const crashed = record.phase !== 'ending' && began && wasShutDown(record.data_directory) === false;
    return { state: 'stopped', crashed };
  }

  async list(): Promise<ComputeRef[]> {
    const { stateDir } = this.#host.directories;
    const { servers, orphans } = await scan(this.#host);
    for (const [id, server] of servers) this.#host.exits.watch(id, server);
    const ids = new Set(servers.keys());
    // Children that outlived their server have no arguments to tell them by, only where they work.
    if (orphans.length > 0) {
      for (const id of readdirSync(stateDir)) {
        const record = readRecord(join(stateDir, id, 'record.json'));
        if (record && orphans.some(({ pid }) => worksIn(pid, record.data_directory))) ids.add(id);
      }
    }
    return [...ids].map((id) => ({ driver: NAME, id }));
  }

  async dial({ id }: ComputeRef): Promise<Duplex> {
    const { socket, record } = computeLayout(this.#host.directories, id);
    return dialSocket(socket, readRecord(record)?.owner?.uid);
  }

  async tailLog({ id }: ComputeRef, lines: number): Promise<string[]> {
    return tailLines(computeLayout(this.#host.directories, id).log, lines);
  }

  onExit(listener: (ref: ComputeRef) => void): () => void {
    return this.#host.exits.listen((id) => listener({ driver: NAME, id }));
  }

  socketDirectory(id: string): string {
    return computeLayout(this.#host.directories, id).socket_directory;
  }

  async #rotateLogs(): Promise<void> {
    // A second round beside a slow one would move aside what the first has just emptied.
    if (this.#rotating) return;
    this.#rotating = true;
    for (const id of this.#host.exits.ids()) {
      const { log } = computeLayout(this.#host.directories, id);
      await rotateLog(log).catch((error: Error) => {
        this.#host.logger?.warn({ compute_id: id, reason: error.message }, 'a log could not be rotated');
      });
    }
    this.#rotating = false;
  }
}
