import { rmSync } from 'node:fs';
import type { StopMode } from '../contract.ts';
import { readPostmasterFile } from './data-directory.ts';
import { findRunning, groupMembers, type Host } from './host.ts';
import type { ComputeLayout } from './layout.ts';
import { removeGroup } from './limits.ts';
import { readRecord, writeRecord } from './record.ts';
import { findHolder } from './server.ts';
import { removeSharedMemory } from './shared-memory.ts';
import { endLeftovers, stopServer } from './stop.ts';

/** No process of the compute is left. */
export async function bringDown(host: Host, layout: ComputeLayout, mode: StopMode): Promise<void> {
  const record = readRecord(layout.record);
  const server = await findRunning(host, layout, record);
  // Said before it is done: how the server ends is then our doing, even if we do not see its end.
  if (record && record.phase !== 'ending') writeRecord(layout.record, { ...record, phase: 'ending' });
  if (server) await stopServer(server, mode, host.deadlines);
  host.strays.delete(layout.id);
  const data_directory = server?.data_directory ?? record?.data_directory;
  if (data_directory !== undefined) {
    const members = () => groupMembers(host, record);
    // An orderly end removes the file, and is the last thing a server does. Another compute may be on the volume by now.
    const orderly = !readPostmasterFile(data_directory) || findHolder({ data_directory, owner: record?.owner });
    if (!orderly || members().length > 0) await endLeftovers(data_directory, members, host.deadlines);
  }
  await removeGroup(host, layout.id, record?.group ?? []);
}

/** Nothing of the compute is left. */
export async function removeAll(host: Host, layout: ComputeLayout): Promise<void> {
  const record = readRecord(layout.record);
  await bringDown(host, layout, 'immediate');
  if (record) await removeSharedMemory(record);
  rmSync(layout.socket_directory, { recursive: true, force: true });
  rmSync(layout.directory, { recursive: true, force: true });
}
