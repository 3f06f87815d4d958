import { closeSync, constants, fstatSync, openSync, readSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';

/**
 * The two files of a data directory that tell how its server does. A customer's code may run under the server's uid
 * and put anything there, so they are opened without following links or waiting, and read up to a bound; what they
 * name is believed only after a look at the process itself.
 */
const READ_MAX_BYTES = 8192;

/** What a server writes about itself; Postgres source, miscadmin.h ("LOCK_FILE_LINE"). */
export interface PostmasterFile {
  readonly pid: number;
  /** Seconds since 1970. */
  readonly started: number;
  readonly socket_directory: string;
  readonly shared_memory_id?: number;
  /** `standby`: recovers, and takes no connections because `hot_standby` is off. */
  readonly status: 'starting' | 'stopping' | 'ready' | 'standby' | undefined;
}

const STATES = ['starting', 'stopping', 'ready', 'standby'] as const;

function readPlainFile(path: string): Buffer | undefined {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    return undefined;
  }
  try {
    if (!fstatSync(file).isFile()) return undefined;
    const buffer = Buffer.alloc(READ_MAX_BYTES);
    return buffer.subarray(0, readSync(file, buffer, 0, READ_MAX_BYTES, 0));
  } catch {
    return undefined;
  } finally {
    closeSync(file);
  }
}

const postmasterFile = (data_directory: string): string => join(data_directory, 'postmaster.pid');

/** undefined when there is none, or only the beginning of one. */
export function readPostmasterFile(data_directory: string): PostmasterFile | undefined {
  const lines = readPlainFile(postmasterFile(data_directory))?.toString('utf8').split('\n');
  const pid = Number(lines?.[0]);
  const started = Number(lines?.[2]);
  if (!lines || !Number.isSafeInteger(pid) || pid <= 1 || !Number.isSafeInteger(started)) return undefined;
  const shared_memory_id = /^\s*\d+\s+(\d+)/.exec(lines[6] ?? '')?.[1];
  return {
    pid,
    started,
    socket_directory: lines[4] ?? '',
    ...(shared_memory_id === undefined ? {} : { shared_memory_id: Number(shared_memory_id) }),
    status: STATES.find((state) => state === lines[7]?.trim()),
  };
}

/** Only after it is certain that no process works in the directory. */
export function removePostmasterFile(data_directory: string): void {
  try {
    unlinkSync(postmasterFile(data_directory));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

/** After the system identifier and two version numbers; Postgres source, pg_control.h. */
const CONTROL_STATE_OFFSET = 16;
const SHUT_DOWN = [1, 2];

const IN_PRODUCTION = 6;

function controlState(data_directory: string): number | undefined {
  const control = readPlainFile(join(data_directory, 'global/pg_control'));
  return control && control.length >= CONTROL_STATE_OFFSET + 4 ? control.readInt32LE(CONTROL_STATE_OFFSET) : undefined;
}

/** Whether the server shut down in good order; undefined where that cannot be read. */
export function wasShutDown(data_directory: string): boolean | undefined {
  const state = controlState(data_directory);
  return state === undefined ? undefined : SHUT_DOWN.includes(state);
}

/** Whether a server that runs takes writes: it is not, or no longer, in recovery. */
export const isInProduction = (data_directory: string): boolean => controlState(data_directory) === IN_PRODUCTION;
