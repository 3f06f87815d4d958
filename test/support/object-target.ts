import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe } from 'node:test';
import type { ObjectStore } from '../../src/drivers/objects/contract.ts';
import { createDirectoryObjects } from '../../src/drivers/objects/directory/driver.ts';
import { createS3Objects } from '../../src/drivers/objects/s3/driver.ts';
import { hasS3, S3_CREDENTIALS, type S3Server, startS3Server } from './s3-server.ts';

/** An empty place for objects. */
export interface ObjectTarget {
  readonly name: 'directory' | 's3';
  readonly objects: ObjectStore;
  /** What a Coppice, or a command of its, finds the place by. */
  readonly env: Readonly<Record<string, string>>;
  /** Where an object lies on the disk. */
  path(key: string): string;
  /** Undefined for a directory. */
  readonly server: S3Server | undefined;
  remove(): Promise<void>;
}

export async function makeDirectoryTarget(): Promise<ObjectTarget> {
  const root = await mkdtemp(join(tmpdir(), 'objects-'));
  return {
    name: 'directory',
    objects: createDirectoryObjects({ root }),
    env: { COPPICE_OBJECTS: root },
    path: (key) => join(root, key),
    server: undefined,
    remove: () => rm(root, { recursive: true, force: true }),
  };
}

/** Only where `hasS3`. */
export async function makeS3Target(): Promise<ObjectTarget> {
  const server = await startS3Server();
  const { bucket, endpoint, env } = server;
  return {
    name: 's3',
    objects: createS3Objects({ bucket, prefix: 'coppice', region: 'us-east-1', endpoint, credentials: S3_CREDENTIALS }),
    env,
    path: (key) => server.path(`coppice/${key}`),
    server,
    remove: () => server.stop(),
  };
}

type Tests = (target: () => ObjectTarget) => void;

/** Declares the same tests for every driver of objects. */
export function describeObjects(title: string, tests: Tests): void {
  declare(`${title}: directory`, makeDirectoryTarget, tests);
  if (hasS3) declare(`${title}: s3`, makeS3Target, tests);
}

/** The same for S3 where it can be had, else for a directory: for what takes long and knows no difference. */
export function describeBestObjects(title: string, tests: Tests): void {
  if (hasS3) declare(`${title}: s3`, makeS3Target, tests);
  else declare(`${title}: directory`, makeDirectoryTarget, tests);
}

function declare(title: string, make: () => Promise<ObjectTarget>, tests: Tests): void {
  describe(title, { timeout: 400_000 }, () => {
    let target: ObjectTarget | undefined;
    before(async () => {
      target = await make();
    });
    after(() => target?.remove());
    tests(() => target!);
  });
}
