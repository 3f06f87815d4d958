import { readFile } from 'node:fs/promises';
import { runCommand } from './command.ts';

const TIMEOUT_MS = 300_000;

/** What is mounted exactly at `path` (its source, such as `/dev/loop3`); undefined when nothing is. */
export async function mountedAt(path: string): Promise<string | undefined> {
  const lines = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n');
  // proc_pid_mountinfo(5): the mount point is the fifth field, the source the second after the dash. The last mount is on top.
  const line = lines.findLast((text) => unescapeField(text.split(' ')[4] ?? '') === path);
  const source = line?.split(' - ')[1]?.split(' ')[1];
  return source === undefined ? undefined : unescapeField(source);
}

/** Mounts a device without device files and set-user-id programs, which no volume needs. */
export async function mountDevice(device: string, filesystem: string, path: string): Promise<void> {
  const args = ['-t', filesystem, '-o', 'nodev,nosuid,noatime', device, path];
  await runCommand('mount', args, { timeout_ms: TIMEOUT_MS });
}

export async function unmount(path: string): Promise<void> {
  await runCommand('umount', [path], { timeout_ms: TIMEOUT_MS });
}

function unescapeField(text: string): string {
  return text.replace(/\\(\d{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}
