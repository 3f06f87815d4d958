import { chmod, mkdir } from 'node:fs/promises';
import { createBtrfsDriver } from '../drivers/storage/btrfs/driver.ts';
import { btrfsProblem } from '../drivers/storage/btrfs/probe.ts';
import type { StorageDriver } from '../drivers/storage/contract.ts';
import { createCopyDriver } from '../drivers/storage/copy/driver.ts';
import { copyProblem } from '../drivers/storage/copy/probe.ts';
import { createReflinkDriver } from '../drivers/storage/reflink/driver.ts';
import { reflinkProblem } from '../drivers/storage/reflink/probe.ts';
import type { StorageDriverOptions } from '../drivers/storage/volume-driver.ts';
import { StartError } from './start-error.ts';

/** Best first. */
const DRIVERS = [
  { name: 'btrfs', problem: btrfsProblem, create: createBtrfsDriver },
  { name: 'reflink', problem: reflinkProblem, create: createReflinkDriver },
  { name: 'copy', problem: copyProblem, create: createCopyDriver },
] as const;

export type StorageDriverName = (typeof DRIVERS)[number]['name'];

export interface ChosenStorage {
  readonly driver: StorageDriver;
  /** Better drivers that do not work here, and why. */
  readonly passed_over: readonly { readonly name: StorageDriverName; readonly problem: string }[];
}

/** The best storage driver that works at `root`, or the one that is named. Throws StartError when that one does not work there. */
export async function chooseStorage(options: StorageDriverOptions, named?: StorageDriverName): Promise<ChosenStorage> {
  if (await mkdir(options.root, { recursive: true })) await chmod(options.root, 0o711);
  const passed_over: { name: StorageDriverName; problem: string }[] = [];
  for (const { name, problem, create } of DRIVERS) {
    if (named && name !== named) continue;
    const found = await problem(options.root);
    if (!found) return { driver: await create(options), passed_over };
    passed_over.push({ name, problem: found });
  }
  throw new StartError(
    `no storage driver works at ${options.root}: ${passed_over.map(({ name, problem }) => `${name}: ${problem}`).join('; ')}`,
  );
}
