import { closeSync, fchmodSync, fchownSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { ComputeSpec } from '../contract.ts';
import type { ComputeLayout } from './layout.ts';

type Owner = ComputeSpec['owner'];

/** A file changes at once or not at all. Nothing is forced to disk: what is written here is written again at each start. */
export function writeWhole(
  path: string,
  text: string,
  { mode, uid = 0, gid }: { mode: number; uid?: number; gid?: number },
): void {
  const unfinished = join(dirname(path), `.${basename(path)}.${process.pid}`);
  const file = openSync(unfinished, 'w', 0o600);
  try {
    writeFileSync(file, text);
    if (gid !== undefined) fchownSync(file, uid, gid);
    fchmodSync(file, mode);
  } finally {
    closeSync(file);
  }
  renameSync(unfinished, path);
}

function hasText(path: string, text: string): boolean {
  try {
    return readFileSync(path, 'utf8') === text;
  } catch {
    return false;
  }
}

/** Its configuration, which the server reads and cannot write. */
export function writeConfiguration({ directory }: ComputeLayout, files: ComputeSpec['files'], owner: Owner): void {
  for (const name of ['postgresql.conf', 'pg_hba.conf', 'pg_ident.conf'] as const) {
    const path = join(directory, name);
    if (!hasText(path, files[name])) writeWhole(path, files[name], { mode: owner ? 0o640 : 0o600, gid: owner?.gid });
  }
}

/** libpq takes a password only from a file that nobody but its user can read. The directory is not that user's to change. */
export function writePassfile({ passfile }: ComputeLayout, primary: ComputeSpec['primary'], owner: Owner): void {
  if (!primary) {
    rmSync(passfile, { force: true });
    return;
  }
  const escaped = [primary.user, primary.password].map((word) => word.replace(/[\\:]/g, '\\$&'));
  writeWhole(passfile, `*:*:*:${escaped.join(':')}\n`, { mode: 0o600, ...owner });
}
