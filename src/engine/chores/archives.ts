import { setTimeout as delay } from 'node:timers/promises';
import { CoppiceError } from '../../domain/errors.ts';
import type { TimelineId } from '../../domain/ids.ts';
import { ArchiveError } from '../../drivers/archive/contract.ts';
import { findArchivingTimelines, findTimelineToCheck, observeArchiveChecked } from '../../store/archives.ts';
import { findDamages, resolveDamage } from '../../store/history-damages.ts';
import type { EngineContext } from '../context.ts';
import { forEach } from '../each.ts';
import { mendSegment } from '../history/mend.ts';
import { tendArchive } from '../history/retention.ts';
import { reportDamage, takeInLog } from '../history/take-in.ts';

const CONCURRENT_TIMELINES = 4;
/** The others are not kept waiting longer than that by archives that are slow. */
const ROUND_MAX_MS = 2_000;
const ALL_EVERY_MS = 120_000;
/** So many archives are tended in a round, and so many files read. */
const TENDED_MAX = 200;
const READ_MAX = 16;

/** Takes in what running servers have archived. Returns one round of it, which tells whether any runs; call it again and again. */
export const takeInRunning = (ctx: EngineContext, stopping: AbortSignal): (() => Promise<boolean>) =>
  takeIn(ctx, stopping, () => findArchivingTimelines(ctx.store));

/**
 * The same for all archives, at first and then now and then: what was archived while Coppice did not run, or just before
 * a server was stopped.
 */
export function takeInAll(ctx: EngineContext, stopping: AbortSignal): () => Promise<boolean> {
  let looked_at = 0;
  return takeIn(ctx, stopping, async () => {
    if (Date.now() < looked_at + ALL_EVERY_MS) return [];
    looked_at = Date.now();
    return ctx.archive.timelines();
  });
}

function takeIn(ctx: EngineContext, stopping: AbortSignal, find: () => Promise<TimelineId[]>): () => Promise<boolean> {
  const underWay = new Set<TimelineId>();
  const waiting = new Set<TimelineId>();
  const takeOn = async () => {
    for (const id of waiting) {
      if (stopping.aborted) return;
      waiting.delete(id);
      underWay.add(id);
      await forEach(ctx, 'archive', [{ id }], async () => void (await takeInLog(ctx, id)));
      underWay.delete(id);
    }
  };
  return async () => {
    const found = await find();
    for (const id of found) if (!underWay.has(id)) waiting.add(id);
    const slots = Math.min(waiting.size, CONCURRENT_TIMELINES - underWay.size);
    const done = Promise.all(Array.from({ length: slots }, takeOn));
    await Promise.race([done, delay(ROUND_MAX_MS, undefined, { ref: false })]);
    if (stopping.aborted) await done;
    return found.length > 0 || waiting.size > 0 || underWay.size > 0;
  };
}

/** Removes what no snapshot needs and what belongs to nothing, and finds what is missing; some archives each round. */
export function tendArchives(ctx: EngineContext): () => Promise<void> {
  let last = '';
  return async () => {
    const ids = (await ctx.archive.timelines()).sort().filter((id) => id > last);
    const now = ids.slice(0, TENDED_MAX);
    last = ids.length > TENDED_MAX ? now.at(-1)! : '';
    await forEach(
      ctx,
      'retention',
      now.map((id) => ({ id })),
      ({ id }) => tendArchive(ctx, id),
    );
  };
}

/**
 * Reads everything in the archives, each file about once in `archive_check_interval_ms`, some at a time, and compares it
 * with its checksum: what has gone bad is known before somebody needs it. A round tells whether there was one to check.
 */
export function checkArchives(ctx: EngineContext): () => Promise<boolean> {
  let current: { readonly id: TimelineId; readonly names: string[]; readonly damaged: Map<string, number> } | undefined;
  return async () => {
    if (!current) {
      const id = await findTimelineToCheck(ctx.store, new Date(Date.now() - ctx.archive_check_interval_ms));
      if (!id) return false;
      const damages = (await findDamages(ctx.store, id)).filter(({ kind }) => kind === 'wrong_checksum');
      const damaged = new Map(damages.map((damage) => [damage.object, damage.id]));
      current = { id, damaged, names: (await ctx.archive.list(id)).map(({ name }) => name) };
    }
    const { id, names, damaged } = current;
    for (const name of names.splice(0, READ_MAX)) {
      const problem = await problemOf(ctx, id, name);
      if (problem) await reportDamage(ctx, id, { kind: 'wrong_checksum', object: name, detail: problem });
      else if (damaged.has(name)) await resolveDamage(ctx.store, damaged.get(name)!);
    }
    if (names.length > 0) return true;
    current = undefined;
    await observeArchiveChecked(ctx.store, id);
    return true;
  };
}

/** One that is missing was removed since, or is missed where the log is looked at as a whole. */
async function problemOf(ctx: EngineContext, id: TimelineId, name: string): Promise<string | undefined> {
  try {
    await ctx.archive.read(id, name);
    return undefined;
  } catch (error) {
    // What lies in object storage that cannot be asked is looked at the next time.
    if (error instanceof CoppiceError) return undefined;
    if (!(error instanceof ArchiveError)) throw error;
    if (error.kind !== 'checksum' || (await mendSegment(ctx, id, name))) return undefined;
    return error.message;
  }
}
