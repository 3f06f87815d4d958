import { once } from 'node:events';
import { existsSync } from 'node:fs';
import type { ComputeSpec } from '../contract.ts';
import { endServer } from './bring-down.ts';
import { writeConfiguration, writePassfile } from './configuration.ts';
import { readPostmasterFile, removePostmasterFile } from './data-directory.ts';
import { emptySocketDirectory, makeDirectories } from './directories.ts';
import { findRunning, groupMembers, type Host } from './host.ts';
import { type ComputeLayout, computeLayout } from './layout.ts';
import { enrol, limitCpu, makeGroup, removeGroup } from './limits.ts';
import { bootId, isProcess, isSameProcess, type ProcessIdentity, startSeconds } from './processes.ts';
import { type ComputeRecord, readRecord, writeRecord } from './record.ts';
import { findHolder, findServer } from './server.ts';
import { logSize, rotateLog } from './server-log.ts';
import { ServerEnded, type SpawnedServer, spawnServer, startError, untilReady } from './start.ts';
import { endLeftovers } from './stop.ts';

const ATTEMPTS = 3;

/** A server of the compute runs and accepts connections: the one that is there, or a new one. */
export async function bringUp(
  host: Host,
  spec: ComputeSpec,
  layout: ComputeLayout,
  signal: AbortSignal,
): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      if (await adopt(host, spec, layout, signal)) return;
      return await start(host, spec, layout, signal);
    } catch (error) {
      // Another server may have taken the data directory between the look and the start; then that one is adopted.
      const retry = attempt < ATTEMPTS && !signal.aborted && findServer(layout, spec) !== undefined;
      if (!retry) throw error;
    }
  }
}

const serverRecord = ({ pid, start_ticks }: ProcessIdentity) => ({ pid, start_ticks, boot_id: bootId() });

/** False when none runs. One that is stopping, or that cannot be reached where it should be, is stopped first. */
async function adopt(host: Host, spec: ComputeSpec, layout: ComputeLayout, signal: AbortSignal): Promise<boolean> {
  const before = readRecord(layout.record);
  const own = await findRunning(host, layout, before);
  const server = own ?? findServer(layout, spec);
  if (!server) return false;
  const data_directory = own?.data_directory ?? spec.data_directory;
  const began_seconds = startSeconds(server);
  const state = await untilReady(server, { data_directory, began_seconds, signal });
  if (state === 'stopping' || !existsSync(layout.socket)) {
    await endServer(host, server, { ...before, data_directory }, 'staged');
    return false;
  }
  const { owner = spec.owner, size = spec.size } = before ?? {};
  const group = makeGroup(host, spec.id, size);
  writeRecord(layout.record, { data_directory, owner, size, phase: 'running', server: serverRecord(server), group });
  host.exits.watch(spec.id, server);
  await enrol(host, spec.id, group, server.pid);
  if (state === 'running') limitCpu(host, spec.id, group, size);
  // Made by an earlier process that was in another group itself.
  await removeGroup(host, spec.id, before?.group?.filter((directory) => !group.includes(directory)) ?? []);
  return true;
}

/** Starts a server; when that fails, for whatever reason, nothing of it runs on. */
async function start(host: Host, spec: ComputeSpec, layout: ComputeLayout, signal: AbortSignal): Promise<void> {
  const { data_directory, owner, size } = spec;
  await clearDataDirectory(host, spec, readRecord(layout.record));
  makeDirectories(layout, owner);
  await emptySocketDirectory(layout, owner);
  writeConfiguration(layout, spec.files, owner);
  writePassfile(layout, spec.primary, owner);
  await rotateLog(layout.log);
  const log_offset = logSize(layout.log);
  const group = makeGroup(host, spec.id, size);
  const record: ComputeRecord = { data_directory, owner, size, phase: 'starting', group };
  writeRecord(layout.record, record);
  let spawned: SpawnedServer | undefined;
  try {
    const { primary } = spec;
    const standby = primary && { primary: computeLayout(host.directories, primary.id), user: primary.user };
    spawned = await spawnServer(spec, layout, standby);
    await see(host, spec, spawned, { layout, record, signal });
  } catch (error) {
    if (spawned?.server && isSameProcess(spawned.server)) await endServer(host, spawned.server, record, 'immediate');
    await ended(spawned);
    writeRecord(layout.record, { ...record, phase: 'ending' });
    await removeGroup(host, spec.id, group);
    throw startError(layout, log_offset, error, spawned?.child);
  }
}

/** Follows a new server until it is ready, and holds it to its size from then on; one that recovers is after its promotion. */
async function see(
  host: Host,
  { id, data_directory, size }: ComputeSpec,
  { child, pid, server, began_seconds }: SpawnedServer,
  { layout, record, signal }: { layout: ComputeLayout; record: ComputeRecord; signal: AbortSignal },
): Promise<void> {
  if (!server) throw new ServerEnded('the server ended at once');
  const { group = [] } = record;
  const enrolled = enrol(host, id, group, pid);
  writeRecord(layout.record, { ...record, phase: 'running', server: serverRecord(server) });
  const state = await untilReady(server, { data_directory, began_seconds, signal });
  if (state === 'stopping') throw new Error('its server was told to stop while starting');
  await enrolled;
  if (state === 'running') limitCpu(host, id, group, size);
  host.exits.watch(id, server, child);
}

/** Waits until an ended process has been collected, so that how it ended is known. */
async function ended(spawned: SpawnedServer | undefined): Promise<void> {
  const child = spawned?.child;
  if (child && child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

/**
 * After a server was killed, children that were busy work on, and its `postmaster.pid` stays, naming a pid that another
 * process may have by now; Postgres would refuse to start for either. Nothing is touched where a server runs.
 */
async function clearDataDirectory(host: Host, spec: ComputeSpec, record: ComputeRecord | undefined): Promise<void> {
  const file = readPostmasterFile(spec.data_directory);
  const members = () => groupMembers(host, record?.group);
  if ((!file && members().length === 0) || findHolder(spec)) return;
  await endLeftovers({ ...spec, members }, host.deadlines);
  if (file && isProcess(file.pid)) removePostmasterFile(spec.data_directory);
}
