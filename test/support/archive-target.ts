import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chownSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe } from 'node:test';
import { promisify } from 'node:util';
import type { ArchiveDriver } from '../../src/drivers/archive/contract.ts';
import { createDirectoryArchive } from '../../src/drivers/archive/directory/driver.ts';
import { createDirectoryObjects } from '../../src/drivers/objects/directory/driver.ts';
import { ShippedArchive } from '../../src/engine/shipping/shipped-archive.ts';
import { cannotMount, type FilesystemKind, mountFilesystem, system, type TestFilesystem } from './filesystem.ts';
import { OWNER } from './storage-target.ts';

const run = promisify(execFile);
export const TIMELINE = '0199b0a2-7a00-7000-8000-000000000001';
const SEGMENT_BYTES = 1024 ** 2;

/** An archive on a file system of its own, with a server's `pg_wal`, which on Btrfs lies in a subvolume. */
export interface ArchiveTarget {
  readonly kind: FilesystemKind;
  readonly filesystem: TestFilesystem;
  readonly root: string;
  readonly driver: ArchiveDriver;
  /** Where the server of the timeline works, as its own user. */
  readonly data_directory: string;
  readonly incoming: string;
  readonly refused: string;
  /** The directory that holds a file of the archive. */
  group(name: string): string;
  /** What a server would have written; returns its bytes. */
  write(name: string): Buffer;
  /** Runs archive_command for a segment, as the server does. Rejects when it fails. */
  archive(name: string): Promise<unknown>;
}

export const segmentName = (number: number): string =>
  `00000001${'0'.repeat(8)}${number.toString(16).toUpperCase().padStart(8, '0')}`;

/** Bytes that are each segment's own. */
export const segmentBytes = (name: string): Buffer =>
  Buffer.alloc(SEGMENT_BYTES, Buffer.from(`${name} holds these bytes;`));

export const accept = (): undefined => undefined;

/** Declares the same tests for every file system that archives lie on, and, if asked, for one that object storage is to get. */
export function describeArchive(
  title: string,
  tests: (target: () => ArchiveTarget) => void,
  kinds: readonly (FilesystemKind | 'ext4 before anything is sent')[] = ['xfs', 'btrfs', 'ext4'],
): void {
  for (const variant of kinds) {
    const shipped = variant === 'ext4 before anything is sent';
    const kind = shipped ? 'ext4' : variant;
    describe(`${title}: ${variant}`, { skip: cannotMount }, () => {
      let target: ArchiveTarget | undefined;
      before(async () => {
        const filesystem = await mountFilesystem(kind, 320 * 1024 ** 2);
        target = await makeTarget(filesystem, kind, shipped).catch(async (error) => {
          await filesystem.remove();
          throw error;
        });
      });
      after(() => target?.filesystem.remove());
      tests(() => target!);
    });
  }
}

async function makeTarget(filesystem: TestFilesystem, kind: FilesystemKind, shipped: boolean): Promise<ArchiveTarget> {
  const root = join(filesystem.path, 'archive');
  const data_directory = join(filesystem.path, 'volume');
  if (kind === 'btrfs') await system('btrfs', '-q', 'subvolume', 'create', data_directory);
  mkdirSync(join(data_directory, 'pg_wal'), { recursive: true });
  for (const path of [data_directory, join(data_directory, 'pg_wal')]) chownSync(path, OWNER.uid, OWNER.gid);
  const local = createDirectoryArchive({ root });
  const objects = createDirectoryObjects({ root: join(filesystem.path, 'objects') });
  const records_directory = join(filesystem.path, 'packs');
  const driver = shipped ? new ShippedArchive({ local, objects, records_directory }) : local;
  await driver.ensureReady(TIMELINE, OWNER);
  const command = driver.archiveCommand(TIMELINE);
  return {
    kind,
    filesystem,
    root,
    driver,
    data_directory,
    incoming: join(root, TIMELINE, 'incoming'),
    refused: join(root, TIMELINE, 'refused'),
    group: (name) => join(root, TIMELINE, 'log', name.slice(0, 22)),
    write: (name) => {
      const bytes = segmentBytes(name);
      const path = join(data_directory, 'pg_wal', name);
      writeFileSync(path, bytes, { mode: 0o600 });
      chownSync(path, OWNER.uid, OWNER.gid);
      return bytes;
    },
    archive: (name) => {
      // As Postgres replaces them; the paths hold no per cent sign of their own.
      assert.doesNotMatch(root, /%/);
      const text = command.replaceAll('%p', `pg_wal/${name}`).replaceAll('%f', name);
      return run('/bin/sh', ['-c', text], { ...OWNER, cwd: data_directory, env: {} });
    },
  };
}
