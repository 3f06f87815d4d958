import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { ArchivedFile } from '../../src/drivers/archive/contract.ts';
import { createDirectoryArchive } from '../../src/drivers/archive/directory/driver.ts';
import type { TestCoppice } from './coppice.ts';
import type { LiveProject } from './live-project.ts';

const SEGMENT = /^[0-9A-F]{24}$/;

/** The archive of a branch of a running Coppice, seen from outside. */
export interface LiveArchive {
  readonly timeline_id: string;
  /** `<data directory>/storage/archive/<timeline>` */
  readonly directory: string;
  /** Segments only, in order. */
  list(): Promise<ArchivedFile[]>;
  /** What waits to be taken in. */
  incoming(): Promise<string[]>;
  /** Where a segment lies. */
  path(name: string): string;
  /** No gap between what is archived, what waits and what the server still has; archived bytes are those of their checksums. */
  assertSound(): Promise<void>;
}

export async function liveArchive(
  coppice: TestCoppice,
  { branch_id }: Pick<LiveProject, 'branch_id'>,
  storage = join(coppice.data_directory, 'storage'),
): Promise<LiveArchive> {
  const { rows } = await coppice.ownDatabase(`select timeline_id from coppice.branches where id = '${branch_id}'`);
  const { timeline_id } = rows[0];
  const root = join(storage, 'archive');
  const driver = createDirectoryArchive({ root });
  const directory = join(root, timeline_id);
  const list = async () => (await driver.list(timeline_id)).filter(({ name }) => SEGMENT.test(name));
  return {
    timeline_id,
    directory,
    list,
    incoming: () => readdir(join(directory, 'incoming')),
    path: (name) => join(directory, 'log', name.slice(0, 22), name),
    assertSound: async () => {
      const written = (await readdir(join(storage, 'volumes', timeline_id, 'pg_wal'))).filter((name) =>
        SEGMENT.test(name),
      );
      // In the order in which a segment goes from one to the other.
      const waiting = (await readdir(join(directory, 'incoming'))).filter((name) => SEGMENT.test(name));
      const names = (await list()).map(({ name }) => name);
      const numbers = [...new Set([...names, ...waiting, ...written])]
        .sort()
        .map((name) => BigInt(`0x${name.slice(16)}`));
      for (const [index, number] of numbers.entries()) {
        if (index > 0) assert.equal(number, numbers[index - 1]! + 1n, 'the log has a gap');
      }
      for (const name of names) await driver.read(timeline_id, name);
    },
  };
}
