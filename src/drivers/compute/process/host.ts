import { existsSync } from 'node:fs';
import type { Cgroups } from './cgroups.ts';
import type { ExitWatch } from './exits.ts';
import type { ComputeLayout, DriverDirectories } from './layout.ts';
import { identifyProcess, type ProcessIdentity } from './processes.ts';
import type { ComputeRecord } from './record.ts';
import { type FoundServer, findServer, findServers } from './server.ts';
import type { StopDeadlines } from './stop.ts';

/** The part of a logger that the driver uses. */
export interface ProcessDriverLogger {
  warn(fields: object, message: string): void;
}

/** What every call of one driver shares. */
export interface Host {
  readonly directories: DriverDirectories;
  readonly cgroups: Cgroups;
  readonly exits: ExitWatch;
  readonly deadlines: StopDeadlines;
  readonly logger?: ProcessDriverLogger;
  /** Servers that were seen running without a record. */
  readonly strays: Map<string, FoundServer>;
}

/** Looks at all processes of the machine; remembers the servers found that have no record. */
export async function scan(host: Host): Promise<Awaited<ReturnType<typeof findServers>>> {
  const found = await findServers(host.directories.stateDir);
  host.strays.clear();
  for (const [id, server] of found.servers) host.strays.set(id, server);
  return found;
}

/**
 * The running server of a compute and its data directory. All processes are looked at only where the record does not
 * tell enough: it was lost, or its writer was killed right after it started a server.
 */
export async function findRunning(
  host: Host,
  layout: ComputeLayout,
  record: ComputeRecord | undefined,
): Promise<(ProcessIdentity & { readonly data_directory: string }) | undefined> {
  const server = record && findServer(layout, record);
  if (record && server) return { ...server, data_directory: record.data_directory };
  const isUnclear = record ? record.phase === 'starting' : existsSync(layout.directory) || host.strays.has(layout.id);
  return isUnclear ? (await scan(host)).servers.get(layout.id) : undefined;
}

/** The processes in a compute's control group; none where sizes are not enforced. */
export function groupMembers({ cgroups }: Host, group: readonly string[] = []): ProcessIdentity[] {
  return cgroups
    .members(group)
    .map(identifyProcess)
    .filter((found) => found !== undefined);
}
