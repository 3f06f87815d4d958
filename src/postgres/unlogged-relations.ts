import { readdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { inDirectory, readPlainFile, writeNewFile } from './plain-files.ts';

/** `16384`, `16384.1`, `16384_fsm`, `16384_vm.2`, `16384_init`: number, fork, segment (Postgres, "Database File Layout"). */
const RELATION_FILE = /^([1-9]\d{0,9})(?:_(fsm|vm|init))?(\.\d{1,6})?$/;
/** An init fork is empty or a few pages of an index; a segment never has more. */
const SEGMENT_BYTES = 1024 ** 3;

/**
 * Makes every unlogged relation of a stopped data directory empty, as Postgres does after a crash: the init fork becomes
 * the relation. Nothing is made durable.
 */
export async function resetUnloggedRelations(dataDirectory: string): Promise<void> {
  await inDirectory(join(dataDirectory, 'base'), async (base) => {
    for (const name of await readdir(base)) {
      if (/^[1-9]\d{0,9}$/.test(name)) await inDirectory(join(base, name), resetInDatabase);
    }
  });
}

async function resetInDatabase(directory: string): Promise<void> {
  const files = (await readdir(directory)).flatMap((name) => {
    const [, relation, fork = 'main', segment = ''] = RELATION_FILE.exec(name) ?? [];
    return relation ? [{ name, relation, fork, segment }] : [];
  });
  const unlogged = new Set(files.filter(({ fork }) => fork === 'init').map(({ relation }) => relation));
  const theirs = files.filter(({ relation }) => unlogged.has(relation));
  for (const { name, fork } of theirs) if (fork !== 'init') await unlink(join(directory, name));
  for (const { name, relation, fork, segment } of theirs) {
    if (fork !== 'init') continue;
    await writeNewFile(join(directory, relation + segment), await readPlainFile(join(directory, name), SEGMENT_BYTES));
  }
}
