import { runCommand } from './command.ts';

const TIMEOUT_MS = 60_000;

/** With sectors of this size direct I/O works whatever the disk below uses; the filesystem is made to match. */
export const SECTOR_BYTES = 4096;

/** The loop device over a file, as `/dev/loop3`; undefined when there is none. */
export async function findLoopDevice(image: string): Promise<string | undefined> {
  const args = ['--associated', image, '--noheadings', '--output', 'NAME'];
  const [device] = (await runCommand('losetup', args, { timeout_ms: TIMEOUT_MS })).split('\n');
  return device?.trim() || undefined;
}

export async function attachLoopDevice(image: string): Promise<string> {
  const args = ['--find', '--show', '--nooverlap', '--sector-size', String(SECTOR_BYTES), image];
  const device = (await runCommand('losetup', args, { timeout_ms: TIMEOUT_MS })).trim();
  // Spares a second copy in memory; not every filesystem below can do it.
  await runCommand('losetup', ['--direct-io=on', device], { timeout_ms: TIMEOUT_MS }).catch(() => {});
  return device;
}

export async function detachLoopDevice(device: string): Promise<void> {
  await runCommand('losetup', ['--detach', device], { timeout_ms: TIMEOUT_MS });
}
