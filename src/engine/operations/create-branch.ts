import type { SnapshotId } from '../../domain/ids.ts';
import type { Lsn } from '../../domain/lsn.ts';
import { readDatabases } from '../../postgres/databases.ts';
import { readRoles } from '../../postgres/roles.ts';
import { observeMaskingCopied } from '../../store/branch-maskings.ts';
import { finishRestore } from '../../store/branch-restores.ts';
import { adoptConfig } from '../../store/learned.ts';
import {
  type EndpointFacts,
  findEndpointFacts,
  findProject,
  findTimeline,
  observeBranchPoint,
  observeTimelineReady,
} from '../../store/observations.ts';
import { findPlannedStart } from '../../store/runs.ts';
import type { OperationRow } from '../../store/schema.ts';
import { adoptSnapshotConfig } from '../../store/snapshot-config.ts';
import { observeSnapshotPoint } from '../../store/snapshots.ts';
import type { EngineContext } from '../context.ts';
import { finalizeRestored } from '../finalize-restored.ts';
import { discardTimeline } from '../first-start.ts';
import { type Birth, takeBirthSnapshot } from '../history/birth.ts';
import { type MadeTimeline, makeTimeline } from '../make-timeline.ts';
import { Revert } from '../revert.ts';
import type { RunOperation } from '../run-call.ts';
import { makeSchemaSource } from '../schema-source.ts';
import { stopPoint } from '../stop-point.ts';

/** Which point of the source's history a branch begins at; none: its head. */
interface BranchArguments {
  readonly point?: { readonly lsn: Lsn; readonly timestamp: string };
  /** The timeline is that of a snapshot of the branch, which stays as it is. */
  readonly snapshot_id?: SnapshotId;
  /** The branch takes the place of the one that it was restored as. */
  readonly finalize_restore?: boolean;
  /** Only the schema is taken over: the copy is what `apply_schema_from_branch` reads it from. */
  readonly schema_only?: boolean;
  /** The copy is what `import_data` fills a masked branch from: one that is new, or that is masked once more. */
  readonly masked?: 'new' | 'again';
  /** For clients who look into the past; gone soon. */
  readonly ephemeral?: boolean;
}

/** Gives a branch its volume: a copy-on-write copy of its parent's, as it is or as it was. */
export const createBranch: RunOperation = async (ctx, operation, signal) => {
  const timeline = await findTimeline(ctx.store, operation.timeline_id!);
  const source = await findTimeline(ctx.store, operation.source_timeline_id!);
  const project = await findProject(ctx.store, operation.project_id);
  if (!timeline || !source?.volume || !project || timeline.deleted_at || timeline.ready_at) return 'skipped';
  const {
    point: asked,
    snapshot_id,
    finalize_restore,
    ephemeral,
    schema_only,
    masked,
  } = operation.arguments as BranchArguments;
  const startingPoint = asked && { lsn: asked.lsn, timestamp: new Date(asked.timestamp) };
  if (schema_only) {
    const point = await makeSchemaSource(ctx, { timeline, project, source, point: startingPoint, signal });
    if (masked === 'new') await observeBranchPoint(ctx.store, operation.branch_id!, point);
    if (masked) await observeMaskingCopied(ctx.intent, operation.branch_id!);
    return 'finished';
  }
  // A copy that an earlier attempt finished is not known to be prepared; making it again costs little.
  await discardTimeline(ctx, timeline.id);
  await using revert = new Revert((error) =>
    ctx.logger.error({ timeline_id: timeline.id, err: error }, 'could not undo a branch'),
  );
  revert.add(() => discardTimeline(ctx, timeline.id));
  let then: Parameters<typeof adoptConfig>[2] | undefined;
  const { volume, point, running } = await makeTimeline(ctx, {
    ...{ timeline, project, source, signal },
    point: startingPoint,
    next: await findNext(ctx, operation),
    look: async (open) => {
      await using session = await open('postgres');
      const seen = { roles: await readRoles(session), databases: await readDatabases(session) };
      if (asked && snapshot_id) await adoptSnapshotConfig(ctx.intent, snapshot_id, seen);
      else if (asked) then = seen;
    },
  });
  if (snapshot_id) await observeSnapshotPoint(ctx.store, snapshot_id, point);
  else await observeBranchPoint(ctx.store, operation.branch_id!, point);
  // Nothing is ever written to a snapshot, so that it has no history; what passes needs none.
  const birth =
    snapshot_id || ephemeral
      ? undefined
      : await beginHistory(ctx, { timeline, project, volume, point, running, signal });
  const system_identifier = source.system_identifier ?? '';
  // Durable, unlike other observations: a volume that is not known to be ready is made anew, whatever it holds by then.
  await ctx.intent.transaction().execute(async (trx) => {
    await finishRestore(trx, operation);
    if (then) await adoptConfig(trx, operation.branch_id!, then);
    if (finalize_restore) await finalizeRestored(trx, { project_id: project.id, branch_id: operation.branch_id! });
    await observeTimelineReady(trx, timeline.id, { volume, system_identifier, birth });
  });
  stopPoint('create_branch:ready');
  revert.disarm();
  return 'finished';
};

/** The endpoint that the same call starts on the timeline. */
async function findNext(ctx: EngineContext, operation: OperationRow): Promise<EndpointFacts | undefined> {
  const id = await findPlannedStart(ctx.store, operation);
  const facts = id && (await findEndpointFacts(ctx.store, id));
  return facts && !facts.deleted_at && !facts.disabled && facts.timeline_id === operation.timeline_id
    ? facts
    : undefined;
}

/** The volume of a running server cannot be kept as it is; the first snapshot of it, which is due at once, is the floor. */
async function beginHistory(
  ctx: EngineContext,
  made: MadeTimeline & Omit<Parameters<typeof takeBirthSnapshot>[1], 'volume'>,
): Promise<Birth> {
  return made.running ? { lsn: made.point.lsn, at: new Date() } : takeBirthSnapshot(ctx, made);
}
