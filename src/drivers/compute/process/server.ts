import { type PostmasterFile, readPostmasterFile } from './data-directory.ts';
import { type ComputeLayout, configurationArgument, idOfArguments } from './layout.ts';
import {
  bootId,
  commandLine,
  identifyProcess,
  isSameProcess,
  type ProcessIdentity,
  parentOf,
  processesWhere,
  runsPostgres,
  startSeconds,
  userOf,
  worksIn,
} from './processes.ts';
import type { ComputeRecord } from './record.ts';

/** The clock may have been set since the server wrote its start time. */
const START_TOLERANCE_SECONDS = 3;

/** Where a server lives, as far as it is needed to find it. */
export type ServerHome = Pick<ComputeRecord, 'data_directory' | 'owner' | 'server'>;

/**
 * The first process of the server that runs on a data directory, whoever started it. The pid in `postmaster.pid` is
 * believed only if that process runs Postgres under the right user, in that directory, and began when the file says; so
 * a pid that was given to another process is neither adopted nor ended.
 */
export function findHolder({ data_directory, owner }: ServerHome): ProcessIdentity | undefined {
  const file = readPostmasterFile(data_directory);
  const found = file && identifyProcess(file.pid);
  if (!file || !found || !runsPostgres(found.pid) || !worksIn(found.pid, data_directory)) return undefined;
  if (owner && userOf(found.pid) !== owner.uid) return undefined;
  return Math.abs(startSeconds(found) - file.started) <= START_TOLERANCE_SECONDS ? found : undefined;
}

/** The server of a compute: the one we recorded, or one on its data directory that was started with its configuration. */
export function findServer(layout: ComputeLayout, home: ServerHome): ProcessIdentity | undefined {
  const { server } = home;
  // Start ticks hold whatever was done to the clock.
  if (server && server.boot_id === bootId() && isSameProcess(server) && runsPostgres(server.pid)) {
    return { pid: server.pid, start_ticks: server.start_ticks };
  }
  const holder = findHolder(home);
  return holder && commandLine(holder.pid).includes(configurationArgument(layout)) ? holder : undefined;
}

/** What the server says of itself; undefined while it has said nothing yet, or the file is another's. */
export function serverFile(
  { pid }: ProcessIdentity,
  data_directory: string,
  began_seconds: number,
): PostmasterFile | undefined {
  const file = readPostmasterFile(data_directory);
  return file?.pid === pid && file.started >= began_seconds - START_TOLERANCE_SECONDS ? file : undefined;
}

/** A server found by what it was started with. */
export interface FoundServer extends ProcessIdentity {
  readonly data_directory: string;
}

/**
 * Servers of a state directory that run now, by the configuration they were started with, known to us or not; and
 * children of any server that outlived theirs.
 */
export async function findServers(
  stateDir: string,
): Promise<{ servers: Map<string, FoundServer>; orphans: ProcessIdentity[] }> {
  const servers = new Map<string, FoundServer>();
  const orphans: ProcessIdentity[] = [];
  const all = await processesWhere(runsPostgres);
  const pids = new Set(all.map(({ pid }) => pid));
  for (const found of all) {
    // A child has its server's arguments until it gives itself a title, so only who has no such parent counts.
    if (pids.has(parentOf(found.pid) ?? 0)) continue;
    const argv = commandLine(found.pid);
    const id = idOfArguments(stateDir, argv);
    if (id !== undefined) servers.set(id, { ...found, data_directory: argv[argv.indexOf('-D') + 1] ?? '' });
    else if (argv[0]?.startsWith('postgres: ')) orphans.push(found);
  }
  return { servers, orphans };
}

/**
 * Everything that works in a data directory: a server, its children, and children that outlived theirs. Other programs
 * count where they run as the server's own user, since then its children have started them.
 */
export async function processesIn(data_directory: string, owner_uid?: number): Promise<ProcessIdentity[]> {
  const isOwners = (pid: number) => owner_uid !== process.getuid?.() && userOf(pid) === owner_uid;
  return await processesWhere((pid) => worksIn(pid, data_directory) && (runsPostgres(pid) || isOwners(pid)));
}
