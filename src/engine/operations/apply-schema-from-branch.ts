import { CoppiceError } from '../../domain/errors.ts';
import { readControlFile } from '../../postgres/control-file.ts';
import { RestoreRefused } from '../../postgres/restore-schema.ts';
import { SchemaUnreadable } from '../../postgres/schema-dump.ts';
import { adoptConfig } from '../../store/learned.ts';
import { findProject, findTimeline, observeTimelineReady } from '../../store/observations.ts';
import { cloneTemplate, fillFromSource } from '../fill-from-source.ts';
import { discardTimeline } from '../first-start.ts';
import { takeBirthSnapshot } from '../history/birth.ts';
import { Revert } from '../revert.ts';
import type { RunOperation } from '../run-call.ts';
import { discardSchemaSource, schemaSourceId } from '../schema-source.ts';
import { stopPoint } from '../stop-point.ts';

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
  const seen = await fillFromSource(ctx, { timeline, project, volume, source, signal }).catch((error) => {
    const forCaller = error instanceof SchemaUnreadable || error instanceof RestoreRefused;
    throw forCaller ? new CoppiceError('schema_not_copied', { reason: error.message }, { cause: error }) : error;
  });
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
