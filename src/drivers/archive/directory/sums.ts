import { open, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ArchivedFile } from '../contract.ts';
import { isArchivable } from './layout.ts';

/** A line of a group's list. */
export type SumsEntry = ArchivedFile;

const FILE = 'sums';

/**
 * Every line of a group's list, by name, the newest last: a copy is noted before it gets its name, so that whoever is
 * killed in between leaves a file that an earlier line is about. Half a line is left out.
 */
export async function readAllSums(group: string): Promise<Map<string, SumsEntry[]>> {
  const text = await readFile(join(group, FILE), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return '';
  });
  const entries = text.split('\n').flatMap((line) => parseLine(line) ?? []);
  return Map.groupBy(entries, ({ name }) => name);
}

/** The newest entry of each name. */
export async function readSums(group: string): Promise<Map<string, SumsEntry>> {
  return new Map([...(await readAllSums(group))].map(([name, entries]) => [name, entries.at(-1)!]));
}

/** Undefined for what a kill or a full disk has left of a line: the kind is its last word. */
function parseLine(line: string): SumsEntry | undefined {
  const [name = '', bytes = '', sha256 = '', archived_at = '', kind = '', ...rest] = line.split(' ');
  const whole = /^\d+$/.test(bytes) && /^[0-9a-f]{64}$/.test(sha256) && !Number.isNaN(Date.parse(archived_at));
  if (!whole || !isArchivable(name) || !/^(copy|whole)$/.test(kind) || rest.length > 0) return undefined;
  return { name, bytes: Number(bytes), sha256, archived_at: new Date(archived_at), copy: kind === 'copy' };
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
  const kept = [...(await readAllSums(group)).values()].flat().filter(({ name }) => !names.has(name));
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
