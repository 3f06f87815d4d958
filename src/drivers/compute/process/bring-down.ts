import { rmSync } from 'node:fs';
import type { StopMode } from '../contract.ts';
import { readPostmasterFile } from './data-directory.ts';
import { removeSocketDirectory } from './directories.ts';
import { findRunning, groupMembers, type Host } from './host.ts';
import type { ComputeLayout } from './layout.ts';
import { freeCpu, removeGroup } from './limits.ts';
import type { ProcessIdentity } from './processes.ts';
import { type ComputeRecord, readRecord, writeRecord } from './record.ts';
import { removeSegment } from './remove-segment.ts';
import { findHolder } from './server.ts';
import { endLeftovers, stopServer } from './stop.ts';

/** No process of the compute is left. */
export async function bringDown(host: Host, layout: ComputeLayout, mode: StopMode): Promise<void> {
  const record = readRecord(layout.record);
  const server = await findRunning(host, layout, record);
  // Said before it is done: how the server ends is then our doing, even if we do not see its end.
  if (record && record.phase !== 'ending') writeRecord(layout.record, { ...record, phase: 'ending' });
  const data_directory = server?.data_directory ?? record?.data_directory;
  host.strays.delete(layout.id);
  if (data_directory !== undefined) await endServer(host, server, { ...record, data_directory }, mode);
  await removeGroup(host, layout.id, record?.group ?? []);
}

/** Stops a server if one runs, and ends what it leaves behind. */
export async function endServer(
  host: Host,
  server: ProcessIdentity | undefined,
  home: Pick<ComputeRecord, 'data_directory' | 'owner' | 'group'>,
  mode: StopMode,
): Promise<void> {
  const { data_directory, owner, group } = home;
  // Its clients are gone, and what is left to do is to write out what they did.
  freeCpu(host, group ?? []);
  const orderly = server ? await stopServer(server, mode, host.deadlines) : true;
  const members = () => groupMembers(host, group);
  // An orderly end removes the file. Where another compute has the volume by now, nothing there is ours.
  const clean = orderly && (!readPostmasterFile(data_directory) || findHolder(home) !== undefined);
  if (!clean || members().length > 0) await endLeftovers({ data_directory, owner, members }, host.deadlines);
}

/** Nothing of the compute is left. */
export async function removeAll(host: Host, layout: ComputeLayout): Promise<void> {
  const record = readRecord(layout.record);
  await bringDown(host, layout, 'immediate');
  if (record) await removeSegment(record);
  await removeSocketDirectory(layout, record?.owner);
  rmSync(layout.directory, { recursive: true, force: true });
}
