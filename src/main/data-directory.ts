import { createHash, randomUUID } from 'node:crypto';
import { access, chmod, constants, mkdir, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { LIMITS } from '../domain/limits.ts';
import { StartError } from './start-error.ts';

/** The directory that everything is kept in, while this process owns it or, as a guest, uses it. */
export interface DataDirectory {
  readonly path: string;
  /** Made once; tells directories apart. */
  readonly id: string;
  release(): Promise<void>;
}

/** Takes the data directory for this process alone, making it if need be. Throws StartError. */
export async function openDataDirectory(path: string): Promise<DataDirectory> {
  try {
    await mkdir(path, { recursive: true });
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK);
    // Computes run as other users and must pass through; what they may not read is closed further down.
    await chmod(path, 0o711);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new StartError(
      `the data directory ${path} cannot be written (${code}): give this user the right to, or choose another with --data-dir`,
    );
  }
  const resolved = await realpath(path);
  refuseLongPath(resolved);
  const lock = await takeLock(resolved);
  try {
    return { path: resolved, id: await readOrMakeId(resolved), release: () => closeServer(lock) };
  } catch (error) {
    await closeServer(lock);
    throw error;
  }
}

/** The data directory of another process, which owns it. Throws StartError where none was ever started on it. */
export async function joinDataDirectory(path: string): Promise<DataDirectory> {
  const resolved = await realpath(path).catch(() => path);
  const id = await readDirectoryId(resolved);
  if (id) return { path: resolved, id, release: () => Promise.resolve() };
  throw new StartError(
    `no engine was ever started on the data directory ${path}: start one process with the role engine first, or choose its directory with --data-dir`,
  );
}

/** Throws StartError when another Coppice works in the directory. Makes nothing, and holds nothing. */
export async function refuseUsedDirectory(path: string): Promise<void> {
  const resolved = await realpath(path).catch(() => undefined);
  if (resolved && (await stat(resolved)).isDirectory()) await closeServer(await takeLock(resolved));
}

/** The longest name that a compute can have: `ep-wandering-wildflower-a1b2c3d4` */
const COMPUTE_ID_BYTES = 32;

/** Every compute has a socket below the directory, and the path of a socket is short. */
function refuseLongPath(path: string): void {
  const below_bytes = `/run/${'-'.repeat(COMPUTE_ID_BYTES)}/.s.PGSQL.5432`.length;
  const limit_bytes = LIMITS.socket_path_bytes - below_bytes;
  const bytes = Buffer.byteLength(path);
  if (bytes <= limit_bytes) return;
  throw new StartError(
    `the data directory ${path} has a path of ${bytes} bytes, and sockets below it leave at most ${limit_bytes}: choose a shorter one with --data-dir`,
  );
}

/**
 * Listens on a socket named after the directory: the system gives the name to one process at a time, and takes it back
 * when that process ends, however it ends.
 */
async function takeLock(path: string): Promise<Server> {
  const digest = createHash('sha256').update(path).digest('hex').slice(0, 32);
  const abstract = process.platform === 'linux';
  const name = abstract ? `\0coppice-${digest}` : join(path, 'lock.sock');
  const server = createServer((socket) => socket.destroy());
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject).listen(name, resolve);
  try {
    await promise;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    throw new StartError(
      `the data directory ${path} is in use by another Coppice: stop that one, or choose another directory with --data-dir`,
    );
  }
  server.unref();
  return server;
}

async function closeServer(server: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  await promise;
}

const ID_FILE = 'directory-id';

/** What tells a data directory apart that was used before; undefined where none was. */
export async function readDirectoryId(path: string): Promise<string | undefined> {
  const known = await readFile(join(path, ID_FILE), 'utf8').catch(() => undefined);
  return known?.trim() || undefined;
}

async function readOrMakeId(path: string): Promise<string> {
  const file = join(path, ID_FILE);
  const known = await readDirectoryId(path);
  if (known) return known;
  const made = randomUUID();
  const unfinished = `${file}.unfinished`;
  await rm(unfinished, { force: true });
  await writeFile(unfinished, `${made}\n`, { flush: true, mode: 0o600 });
  await rename(unfinished, file);
  return made;
}
