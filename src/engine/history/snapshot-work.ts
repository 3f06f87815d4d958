import type { TimelineId } from '../../domain/ids.ts';
import type { EngineContext } from '../context.ts';

/** A snapshot of a running server that is being made. */
interface Taking {
  readonly stop: AbortController;
  readonly ended: Promise<unknown>;
}

/** What this process does with snapshots at this moment: the store does not know, and after a crash nobody does it. */
interface SnapshotWork {
  readonly taking: Map<TimelineId, Taking>;
  /** Snapshots that are being made; their rows have no volume yet. */
  readonly unfinished: Set<string>;
  /** How many copy from each snapshot. */
  readonly held: Map<string, number>;
  readonly removing: Set<string>;
  /** How many base backups of each timeline go on. */
  readonly backups: Map<TimelineId, number>;
}

const works = new WeakMap<EngineContext, SnapshotWork>();

function workOf(ctx: EngineContext): SnapshotWork {
  const known = works.get(ctx);
  if (known) return known;
  const work: SnapshotWork = {
    taking: new Map(),
    unfinished: new Set(),
    held: new Map(),
    removing: new Set(),
    backups: new Map(),
  };
  works.set(ctx, work);
  return work;
}

/** Runs `work` while `key` is counted. */
async function counted<T>(counts: Map<string, number>, key: string, work: () => Promise<T>): Promise<T> {
  counts.set(key, (counts.get(key) ?? 0) + 1);
  try {
    return await work();
  } finally {
    const left = counts.get(key)! - 1;
    if (left > 0) counts.set(key, left);
    else counts.delete(key);
  }
}

/** Marks a base backup of a timeline as going on. Any number of branches may be made at once. */
export const duringBackup = <T>(ctx: EngineContext, id: TimelineId, work: () => Promise<T>): Promise<T> =>
  counted(workOf(ctx).backups, id, work);

/**
 * Takes a snapshot of a running server, unless that goes on already, or the timeline is being copied anyhow: then
 * nothing is done, and it is tried again later.
 */
export async function takeAlone(
  ctx: EngineContext,
  id: TimelineId,
  signal: AbortSignal,
  take: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const { taking, backups } = workOf(ctx);
  if (taking.has(id) || backups.has(id)) return;
  const stop = new AbortController();
  const ended = take(AbortSignal.any([signal, stop.signal]));
  taking.set(id, { stop, ended: ended.catch(() => undefined) });
  try {
    await ended;
  } finally {
    taking.delete(id);
  }
}

/** Gives up snapshots of running servers that are being made, of one timeline or of all, and waits for their end. */
export async function interruptSnapshots(ctx: EngineContext, id?: TimelineId): Promise<void> {
  const { taking } = workOf(ctx);
  const interrupted = id === undefined ? [...taking.values()] : [taking.get(id)].filter((one) => one !== undefined);
  for (const { stop } of interrupted) stop.abort(new Error('the timeline is needed for something else'));
  await Promise.all(interrupted.map(({ ended }) => ended));
}

/** Marks a snapshot as being made, so that its row is not taken for the rest of a crash. */
export async function whileUnfinished<T>(ctx: EngineContext, id: string, work: () => Promise<T>): Promise<T> {
  const { unfinished } = workOf(ctx);
  unfinished.add(id);
  try {
    return await work();
  } finally {
    unfinished.delete(id);
  }
}

export const isUnfinished = (ctx: EngineContext, id: string): boolean => workOf(ctx).unfinished.has(id);

/**
 * Keeps a snapshot from being removed while `work` copies from it: a copy of what is being removed would lack files.
 * Returns `refused` when its removal has begun.
 */
export async function whileHeld<T, R>(
  ctx: EngineContext,
  id: string,
  { work, refused }: { work: () => Promise<T>; refused: () => R },
): Promise<T | R> {
  const { held, removing } = workOf(ctx);
  if (removing.has(id)) return refused();
  return counted(held, id, work);
}

/** Removes a snapshot by way of `work`, unless somebody copies from it or removes it. */
export async function whileRemoving(ctx: EngineContext, id: string, work: () => Promise<void>): Promise<void> {
  const { held, removing } = workOf(ctx);
  if (held.has(id) || removing.has(id)) return;
  removing.add(id);
  try {
    await work();
  } finally {
    removing.delete(id);
  }
}
