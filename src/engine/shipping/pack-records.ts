import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ArchivedFile } from '../../drivers/archive/contract.ts';

/**
 * `sending`: it may be in object storage, whole or not at all. `confirmed`: it is. `unwanted`: it is to be removed from
 * there.
 */
export type PackState = 'sending' | 'confirmed' | 'unwanted';

/** A pack of a timeline's log, as it is known on this disk. */
export interface PackRecord {
  /** `<first>-<last>` */
  readonly id: string;
  readonly state: PackState;
  /** Those of its files that somebody may still ask for. */
  readonly files: readonly ArchivedFile[];
}

/** What is known of the packs of each timeline, in memory and, before anything is done with them, on disk. */
export interface PackRecords {
  /** Timelines that have any. */
  timelines(): Promise<string[]>;
  list(timelineId: string): Promise<readonly PackRecord[]>;
  /** Looks at the disk again, where another process may have noted more. */
  reload(timelineId: string): Promise<readonly PackRecord[]>;
  /** Notes a pack, or what it is now; durable when this returns. */
  put(timelineId: string, record: PackRecord): Promise<void>;
  remove(timelineId: string, id: string): Promise<void>;
}

const NAME = /^[0-9A-F]{24}-[0-9A-F]{24}$/;
const TIMELINE = /^[A-Za-z0-9-]{1,80}$/;

/** One file a pack, below a directory for each timeline. Callers see to it that a timeline's change one at a time. */
export function packRecordsBelow(root: string): PackRecords {
  const known = new Map<string, Map<string, PackRecord>>();
  const directoryOf = (timelineId: string) => {
    if (!TIMELINE.test(timelineId)) throw new Error(`${JSON.stringify(timelineId)} is not a timeline's id`);
    return join(root, timelineId);
  };
  const load = async (timelineId: string) => {
    const there = known.get(timelineId);
    if (there) return there;
    const directory = directoryOf(timelineId);
    const records = new Map<string, PackRecord>();
    for (const id of ((await readdir(directory).catch(ignoreAbsent)) ?? []).filter((name) => NAME.test(name)).sort()) {
      records.set(id, parse(id, await readFile(join(directory, id), 'utf8')));
    }
    const loaded = known.get(timelineId) ?? records;
    known.set(timelineId, loaded);
    return loaded;
  };
  return {
    timelines: async () => ((await readdir(root).catch(ignoreAbsent)) ?? []).filter((name) => TIMELINE.test(name)),
    list: async (timelineId) => [...(await load(timelineId)).values()],
    reload: async (timelineId) => {
      known.delete(timelineId);
      return [...(await load(timelineId)).values()];
    },
    put: async (timelineId, record) => {
      const records = await load(timelineId);
      const directory = directoryOf(timelineId);
      if ((await mkdir(directory, { recursive: true, mode: 0o700 })) !== undefined) await syncDirectory(root);
      const { id, state, files } = record;
      await writeDurably(directory, id, `${JSON.stringify({ state, files })}\n`);
      records.set(id, record);
    },
    remove: async (timelineId, id) => {
      const records = await load(timelineId);
      const directory = directoryOf(timelineId);
      await rm(join(directory, id), { force: true });
      records.delete(id);
      if (records.size > 0) return;
      await rm(directory, { recursive: true, force: true });
      known.delete(timelineId);
    },
  };
}

function parse(id: string, text: string): PackRecord {
  const { state, files } = JSON.parse(text) as { state: PackState; files: (ArchivedFile & { archived_at: string })[] };
  return { id, state, files: files.map((file) => ({ ...file, archived_at: new Date(file.archived_at) })) };
}

/** Replaces a file in one moment. */
async function writeDurably(directory: string, name: string, text: string): Promise<void> {
  const next = join(directory, `.${name}.new`);
  await rm(next, { force: true });
  const file = await open(next, 'wx', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(next, join(directory, name));
  await syncDirectory(directory);
}

async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function ignoreAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
