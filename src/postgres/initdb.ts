import { execFile } from 'node:child_process';
import { chown, lchown, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { PLATFORM_ROLE } from './access.ts';
import type { Distribution } from './distributions.ts';

const run = promisify(execFile);

/** Who owns a data directory. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/**
 * Makes a cluster in an empty directory. Nothing is made durable.
 *
 * @returns who owns its files now: root cannot run initdb, so that a named user does; undefined: as before
 */
export async function initCluster(
  distribution: Pick<Distribution, 'root' | 'major'>,
  path: string,
): Promise<Owner | undefined> {
  const runner = await namedUser();
  if (runner) await chown(path, runner.uid, runner.gid);
  await run(join(distribution.root, 'bin/initdb'), initdbArguments(distribution.major, path), { ...runner, env: {} });
  return runner;
}

function initdbArguments(major: number, path: string): string[] {
  const locale = process.platform === 'darwin' ? 'C' : 'C.UTF-8';
  return [
    ...['-D', path, '-U', PLATFORM_ROLE, '--encoding=UTF8', `--locale=${locale}`, '--wal-segsize=1'],
    // The same order on every machine, and none that a change of the C library moves.
    ...(major >= 17 ? ['--locale-provider=builtin', '--builtin-locale=C.UTF-8'] : []),
    ...['--data-checksums', '--auth-local=peer', '--auth-host=scram-sha-256', '--no-sync', '--no-instructions'],
  ];
}

/** initdb wants a user with a name, and not root; undefined where we are not root and can only be ourselves. */
async function namedUser(): Promise<Owner | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const lines = (await readFile('/etc/passwd', 'utf8')).split('\n').map((line) => line.split(':'));
  const found = ['postgres', 'nobody'].map((name) => lines.find(([user]) => user === name)).find(Boolean);
  if (!found) throw new Error('initdb needs a user named postgres or nobody in /etc/passwd; please add one');
  return { uid: Number(found[2]), gid: Number(found[3]) };
}

/** Gives a tree that nobody else can write to another owner. Links are not followed. */
export async function chownTree(path: string, { uid, gid }: Owner): Promise<void> {
  for (const entry of await readdir(path, { withFileTypes: true, recursive: true })) {
    await lchown(join(entry.parentPath, entry.name), uid, gid);
  }
  await lchown(path, uid, gid);
}
