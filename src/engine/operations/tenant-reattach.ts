import { CoppiceError } from '../../domain/errors.ts';
import type { TimelineId } from '../../domain/ids.ts';
import { findDetachedTimelines, observeTimelineReattached } from '../../store/detached-projects.ts';
import { findProject, findTimeline } from '../../store/observations.ts';
import type { OperationRow, TimelineRow } from '../../store/schema.ts';
import type { EngineContext } from '../context.ts';
import { bringHere } from '../objects/bring-here.ts';
import type { FetchBase } from '../objects/patched-volume.ts';
import { storedBase } from '../objects/stored-timeline.ts';
import type { RunOperation } from '../run-call.ts';
import { stopPoint } from '../stop-point.ts';

/** What those who wait need; the rest of the project comes along. */
interface ReattachArguments {
  readonly timeline_ids?: readonly TimelineId[];
}

/**
 * Brings a detached project back, one timeline after the other, first what is needed. What is damaged there, or finds no room,
 * stays detached unless somebody waits for it: it must not keep the others from their data.
 */
export const tenantReattach: RunOperation = async (ctx, operation, signal) => {
  const project = await findProject(ctx.store, operation.project_id);
  const detached = await findDetachedTimelines(ctx.store, operation.project_id);
  if (!project || project.deleted_at || detached.length === 0) return 'skipped';
  const { timeline_ids = [] } = operation.arguments as ReattachArguments;
  const needed = new Set(timeline_ids);
  for (const { id, parent_id } of inOrder(detached, needed)) {
    try {
      await bringHere(ctx, {
        ...{ id, project, signal },
        base: await findBase(ctx, parent_id, operation),
        observe: (volume) => observeTimelineReattached(ctx.intent, id, volume),
      });
    } catch (error) {
      if (needed.has(id) || !mayStay(error)) throw error;
      const fields = { project_id: project.id, timeline_id: id, err: error };
      ctx.logger.warn(fields, 'a part of a project stays in object storage');
    }
    stopPoint('tenant_reattach:timeline');
  }
  return 'finished';
};

const mayStay = (error: unknown): boolean =>
  error instanceof CoppiceError && (error.kind === 'object_storage_failed' || error.kind === 'storage_full');

/** What is needed and what that was made from come first; each after its parent. */
function inOrder(detached: readonly TimelineRow[], needed: ReadonlySet<TimelineId>): TimelineRow[] {
  const byId = new Map(detached.map((timeline) => [timeline.id, timeline]));
  const first = new Set<TimelineId>();
  for (const id of needed) {
    for (let at = byId.get(id); at && !first.has(at.id); at = byId.get(at.parent_id ?? '')) first.add(at.id);
  }
  return [...detached.filter(({ id }) => first.has(id)), ...detached.filter(({ id }) => !first.has(id))];
}

/**
 * The parent's volume, where this very operation has brought it back: its claim has kept everybody from writing to it since, and
 * what is stored of it from being removed. What a child has in common with it takes its room once where the storage
 * shares it.
 */
async function findBase(
  ctx: EngineContext,
  parent_id: TimelineId | null,
  { started_at }: OperationRow,
): Promise<FetchBase | undefined> {
  const parent = parent_id === null ? undefined : await findTimeline(ctx.store, parent_id);
  if (!parent?.volume || !parent.stored_at || !parent.reattached_at || parent.deleted_at) return undefined;
  return started_at && parent.reattached_at > started_at ? storedBase(parent.id, parent.volume) : undefined;
}
