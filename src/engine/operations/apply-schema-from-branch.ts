import { CoppiceError } from '../../domain/errors.ts';
import { LIMITS } from '../../domain/limits.ts';
import type { ComputeRef } from '../../drivers/compute/contract.ts';
import type { VolumeRef } from '../../drivers/storage/contract.ts';
import { giveIdentity, readControlFile } from '../../postgres/control-file.ts';
import { copySchemas, ownersIn, readContents } from '../../postgres/copy-schemas.ts';
import { type ObservedDatabase, readDatabases } from '../../postgres/databases.ts';
import { RestoreRefused } from '../../postgres/restore-schema.ts';
import { type ObservedRole, readRoles } from '../../postgres/roles.ts';
import { SchemaUnreadable } from '../../postgres/schema-dump.ts';
import { adoptConfig } from '../../store/learned.ts';
import { findProject, findTimeline, observeTimelineReady } from '../../store/observations.ts';
import type { ProjectRow, TimelineRow } from '../../store/schema.ts';
import { distributionOf } from '../compute-spec.ts';
import type { EngineContext } from '../context.ts';
import { discardTimeline } from '../first-start.ts';
import { takeBirthSnapshot } from '../history/birth.ts';
import { Revert } from '../revert.ts';
import type { RunOperation } from '../run-call.ts';
import { discardSchemaSource, schemaSourceId, startQuietServer } from '../schema-source.ts';
import { sessionStream, sessions } from '../sessions.ts';
import { stopPoint } from '../stop-point.ts';
import { volumeOwner } from '../volume-owner.ts';

/**
 * Makes the volume of a branch that takes over the schema of its source and no data: a clone of the template that new
 * projects begin with, with an identity of its own, filled from the copy of the source that `create_branch` has made.
 * Nobody can reach it before it is filled, and a second attempt begins anew.
 */
export const applySchemaFromBranch: RunOperation = async (ctx, operation, signal) => {
  const timeline = await findTimeline(ctx.store, operation.timeline_id!);
  const project = await findProject(ctx.store, operation.project_id);
  if (!timeline || !project || timeline.deleted_at) return 'skipped';
  if (timeline.ready_at) {
    await discardSchemaSource(ctx, timeline.id);
    return 'finished';
  }
  const source = await ctx.storage.find(schemaSourceId(timeline.id));
  // `create_branch` has failed for good.
  if (!source) return 'skipped';
  await discardTimeline(ctx, timeline.id);
  await using revert = new Revert((error) =>
    ctx.logger.error({ timeline_id: timeline.id, err: error }, 'could not undo a branch'),
  );
  revert.add(() => discardTimeline(ctx, timeline.id));
  const volume = await cloneTemplate(ctx, { timeline, project, signal });
  stopPoint('apply_schema_from_branch:cloned');
  const seen = await fill(ctx, { timeline, project, volume, source, signal });
  // At an earlier point there may have been others than those that the source has now.
  if (operation.arguments.at_point)
    await ctx.intent.transaction().execute((trx) => adoptConfig(trx, operation.branch_id!, seen));
  stopPoint('apply_schema_from_branch:filled');
  const { systemIdentifier } = await readControlFile(ctx.storage.path(volume));
  const birth = await takeBirthSnapshot(ctx, { timeline, project, volume, signal });
  await observeTimelineReady(ctx.intent, timeline.id, { volume, system_identifier: String(systemIdentifier), birth });
  revert.disarm();
  stopPoint('apply_schema_from_branch:ready');
  await discardSchemaSource(ctx, timeline.id);
  return 'finished';
};

interface Branch {
  readonly timeline: TimelineRow;
  readonly project: ProjectRow;
  readonly signal: AbortSignal;
}

async function cloneTemplate(ctx: EngineContext, { timeline, project, signal }: Branch): Promise<VolumeRef> {
  const template = await ctx.template(timeline.distribution_id);
  signal.throwIfAborted();
  const owner = volumeOwner(ctx, project);
  const prepare = async (path: string) => {
    await giveIdentity(path);
  };
  return ctx.storage.ensureCloned(template, timeline.id, { owner, signal, prepare });
}

/** Returns what the new server holds. */
async function fill(
  ctx: EngineContext,
  { timeline, project, volume, source, signal }: Branch & { volume: VolumeRef; source: VolumeRef },
): Promise<{ roles: ObservedRole[]; databases: ObservedDatabase[] }> {
  const copied = { ...timeline, id: schemaSourceId(timeline.id) };
  const from = await startQuietServer(ctx, { timeline: copied, project, volume: source, signal });
  const dial = (ref: ComputeRef) => () => sessionStream(ctx, ref, signal);
  const contents = await readContents(dial(from));
  const to = await startQuietServer(ctx, { timeline, project, volume, enter_as: ownersIn(contents), signal });
  const { major } = distributionOf(ctx, timeline.distribution_id);
  const options = { contents, major, limit_bytes: LIMITS.schema_bytes, signal };
  await copySchemas(dial(from), dial(to), options).catch((error) => {
    const forCaller = error instanceof SchemaUnreadable || error instanceof RestoreRefused;
    throw forCaller ? new CoppiceError('schema_not_copied', { reason: error.message }, { cause: error }) : error;
  });
  await using postgres = await sessions(ctx, to, signal)('postgres');
  const seen = { roles: await readRoles(postgres), databases: await readDatabases(postgres) };
  await ctx.compute.ensureStopped(to, 'staged');
  await ctx.compute.ensureRemoved(to);
  return seen;
}
