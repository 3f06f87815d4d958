import { open, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ArchivedFile } from '../contract.ts';

/** A line of a group's list. `copy`: of a file that its server may still have been going to write on. */
export interface SumsEntry extends ArchivedFile {
  readonly copy: boolean;
}

const FILE = 'sums';

/** The entries of a group, by name; a later line of a name replaces an earlier one. A torn last line is left out. */
export async function readSums(group: string): Promise<Map<string, SumsEntry>> {
  const text = await readFile(join(group, FILE), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return '';
  });
  const entries = new Map<string, SumsEntry>();
  for (const line of text.split('\n').slice(0, -1)) {
    const [name, bytes, sha256, archived_at, kind] = line.split(' ');
    // A kill in the middle of an append leaves half a line, which the next append completes to nonsense.
    if (!name || !/^[0-9a-f]{64}$/.test(sha256 ?? '') || !archived_at) continue;
    entries.set(name, {
      name,
      bytes: Number(bytes),
      sha256: sha256!,
      archived_at: new Date(archived_at),
      copy: kind === 'copy',
    });
  }
  return entries;
}

const lineOf = ({ name, bytes, sha256, archived_at, copy }: SumsEntry): string =>
  `${name} ${bytes} ${sha256} ${archived_at.toISOString()} ${copy ? 'copy' : 'whole'}\n`;

/** Adds entries, durable when this returns. Begins on a new line, whatever a kill has left. */
export async function appendSums(group: string, entries: readonly SumsEntry[]): Promise<void> {
  if (entries.length === 0) return;
  const file = await open(join(group, FILE), 'a+', 0o600);
  try {
    const { size } = await file.stat();
    const last = Buffer.alloc(1);
    if (size > 0) await file.read(last, 0, 1, size - 1);
    const torn = size > 0 && last[0] !== 0x0a;
    await file.appendFile((torn ? '\n' : '') + entries.map(lineOf).join(''));
    await file.sync();
  } finally {
    await file.close();
  }
  await syncDirectory(group);
}

/** Replaces the list by one without these names. */
export async function dropSums(group: string, names: ReadonlySet<string>): Promise<void> {
  const kept = [...(await readSums(group)).values()].filter(({ name }) => !names.has(name));
  const next = join(group, `${FILE}.new`);
  await rm(next, { force: true });
  const file = await open(next, 'wx', 0o600);
  try {
    await file.writeFile(kept.map(lineOf).join(''));
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(next, join(group, FILE));
  await syncDirectory(group);
}

/** Names that were given or taken in a directory stay so after a power loss. */
export async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
