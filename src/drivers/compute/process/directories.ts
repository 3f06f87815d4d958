import { execFile } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, rmdirSync, unlinkSync } from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import type { ComputeSpec } from '../contract.ts';
import type { ComputeLayout } from './layout.ts';

const run = promisify(execFile);
type Owner = ComputeSpec['owner'];

/** Makes the compute's directories: ours, which its group reads, and its own for the socket. */
export function makeDirectories({ directory, socket_directory }: ComputeLayout, owner: Owner): void {
  for (const parent of [dirname(directory), dirname(socket_directory)]) {
    // Others may pass, so that each reaches its own; nobody may look around.
    if (mkdirSync(parent, { recursive: true, mode: 0o711 })) chmodSync(parent, 0o711);
  }
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  if (owner) chownSync(directory, process.getuid?.() ?? 0, owner.gid);
  chmodSync(directory, owner ? 0o750 : 0o700);
  mkdirSync(socket_directory, { recursive: true, mode: 0o700 });
  if (owner) chownSync(socket_directory, owner.uid, owner.gid);
  chmodSync(socket_directory, 0o700);
}

/** True when it is gone or was not there; false for what is not a file. */
function unlinked(path: string): boolean {
  try {
    unlinkSync(path);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT';
  }
}

/**
 * Removes what a killed server left beside its socket: the pid in the lock may be another process's by now, and
 * Postgres would believe it. Anything else in there a customer's code has made, and it is removed with that user's
 * rights, since it may lead elsewhere.
 */
export async function emptySocketDirectory({ socket, socket_directory }: ComputeLayout, owner: Owner): Promise<void> {
  if (unlinked(socket) && unlinked(`${socket}.lock`)) return;
  await emptyAs(owner, socket_directory);
}

/** The directory of the socket goes, whatever is in it. */
export async function removeSocketDirectory(layout: ComputeLayout, owner: Owner): Promise<void> {
  for (const attempt of [1, 2]) {
    try {
      if (unlinked(layout.socket)) unlinked(`${layout.socket}.lock`);
      return rmdirSync(layout.socket_directory);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT') return;
      if (code !== 'ENOTEMPTY' || attempt === 2) throw error;
      await emptyAs(owner, layout.socket_directory);
    }
  }
}

async function emptyAs(owner: Owner, directory: string): Promise<void> {
  const inside = ['-mindepth', '1', '-depth', '-delete'];
  await run('find', [directory, ...inside], { ...owner, cwd: '/', env: { PATH: process.env.PATH } });
}
