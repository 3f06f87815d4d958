import type { ComputeUnits } from '../../../domain/compute-size.ts';
import type { Host } from './host.ts';

const TOO_LARGE = 'it holds more memory than its size allows';

/** A failure here leaves a compute that works and is not held to its size, so it is told and not thrown. */
function warn({ logger }: Host, id: string, error: unknown): void {
  const reason = error instanceof Error ? error.message : String(error);
  logger?.warn({ compute_id: id, reason }, 'the size of a compute is not enforced');
}

/** Makes the control group of a compute, with its memory limited. */
export function makeGroup(host: Host, id: string, size: ComputeUnits): string[] {
  try {
    const { group, fits } = host.cgroups.create(id, size);
    if (!fits) warn(host, id, new Error(TOO_LARGE));
    return group;
  } catch (error) {
    warn(host, id, error);
    return [];
  }
}

/** Moves a server into its group. */
export async function enrol(host: Host, id: string, group: readonly string[], pid: number): Promise<void> {
  await host.cgroups.enrol(group, pid).catch((error) => warn(host, id, error));
}

/** Holds a compute to its share of CPU time from now on. */
export function limitCpu(host: Host, id: string, group: readonly string[], size: ComputeUnits): void {
  try {
    host.cgroups.limitCpu(group, size);
  } catch (error) {
    warn(host, id, error);
  }
}

/** Lets a compute have what CPU time there is, while somebody waits for it to be ready or to be gone. */
export function freeCpu({ cgroups }: Host, group: readonly string[]): void {
  try {
    cgroups.freeCpu(group);
  } catch {
    // Its group may be gone; and what is slowed down comes to its end, too.
  }
}

/** Gives a running compute another size. */
export function applySize(host: Host, id: string, group: readonly string[], size: ComputeUnits): void {
  limitCpu(host, id, group, size);
  try {
    if (!host.cgroups.limitMemory(group, size)) warn(host, id, new Error(TOO_LARGE));
  } catch (error) {
    warn(host, id, error);
  }
}

/** Removes the group when nothing is in it any more. */
export async function removeGroup({ cgroups, logger }: Host, id: string, group: readonly string[]): Promise<void> {
  try {
    await cgroups.remove(group);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    logger?.warn({ compute_id: id, reason }, 'the control group of a compute stays');
  }
}
