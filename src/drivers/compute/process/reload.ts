import { setTimeout as delay } from 'node:timers/promises';
import type { ComputeLayout } from './layout.ts';
import { isSameProcess, type ProcessIdentity, signalProcess, startSeconds } from './processes.ts';
import { serverFile } from './server.ts';
import { logSize, rawLines } from './server-log.ts';

const TIMEOUT_MS = 1000;
const POLL_MS = 2;
/** Logged before the files are read; whoever connects afterwards waits until they have been. */
const RELOADING = 'received SIGHUP, reloading configuration files';

/** Makes a running server read its files again, and waits until it does, or a second if its log is closed to such news. */
export async function reload(server: ProcessIdentity, { log }: ComputeLayout, data_directory: string): Promise<void> {
  const deadline = Date.now() + TIMEOUT_MS;
  const waitFor = async (condition: () => boolean) => {
    while (!condition() && Date.now() < deadline && isSameProcess(server)) await delay(POLL_MS);
  };
  // Before it has written its file the signal would end it.
  const began_seconds = startSeconds(server);
  await waitFor(() => serverFile(server, data_directory, began_seconds) !== undefined);
  const from = logSize(log);
  signalProcess(server, 'SIGHUP');
  await waitFor(() => rawLines(log, from).some((line) => line.includes(RELOADING)));
}
