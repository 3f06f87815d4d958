import { closeSync, constants, fstatSync, openSync, readSync, statSync } from 'node:fs';
import { copyFile, rename, truncate } from 'node:fs/promises';
import { LIMITS } from '../../../domain/limits.ts';
import { redact } from './redact.ts';

/** How much of the end of a log is looked through for lines. */
const TAIL_MAX_BYTES = 256 * 1024;
const LINE_MAX_CHARACTERS = 4096;

/**
 * Opens a log for a server to write to. The server gets the open file and not the right to open it, and can only
 * append, so that what was logged stays.
 */
export function openLog(path: string): number {
  return openSync(path, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
}

/** 0 when there is none. */
export function logSize(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

function lastBytes(path: string, from: number): string {
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch {
    return '';
  }
  try {
    const { size } = fstatSync(file);
    const start = Math.max(from, size - TAIL_MAX_BYTES);
    if (start >= size) return '';
    const buffer = Buffer.alloc(size - start);
    const text = buffer.toString('utf8', 0, readSync(file, buffer, 0, buffer.length, start));
    // The first line is whole only where the reading began at its beginning.
    return start > from ? text.slice(text.indexOf('\n') + 1) : text;
  } finally {
    closeSync(file);
  }
}

/** Lines from a place in the log on, as they were written. */
export function rawLines(path: string, from: number): string[] {
  return lastBytes(path, from).split('\n').filter(Boolean);
}

/** The newest lines, oldest first, without secrets; only those after `from`, a size of the log in bytes. */
export function tailLines(path: string, count: number, from = 0): string[] {
  let lines = rawLines(path, from);
  if (from === 0 && lines.length < count) lines = [...rawLines(`${path}.1`, 0), ...lines];
  if (count <= 0 || lines.length === 0) return [];
  // Together, since a statement may have been logged over several lines.
  const text = redact(lines.join('\n')).split('\n');
  return text.slice(-count).map((line) => line.slice(0, LINE_MAX_CHARACTERS));
}

/**
 * Moves a log that has grown too large to `.1`, which becomes `.2`, and so on. The server has the file open, so it is
 * copied and emptied; what is written between the two is lost.
 */
export async function rotateLog(path: string): Promise<void> {
  if (logSize(path) < LIMITS.compute_log_bytes) return;
  for (let number = LIMITS.compute_log_files - 1; number > 1; number -= 1) {
    await rename(`${path}.${number - 1}`, `${path}.${number}`).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
  }
  await copyFile(path, `${path}.1`, constants.COPYFILE_FICLONE);
  await truncate(path, 0);
}
