import { createHmac } from 'node:crypto';
import { CoppiceError } from '../../domain/errors.ts';
import { readControlFile } from '../../postgres/control-file.ts';
import { ownersIn, type RowsToCopy } from '../../postgres/copy-schemas.ts';
import { MaskingRefused, maskedRows } from '../../postgres/masked-rows.ts';
import { RestoreRefused } from '../../postgres/restore-schema.ts';
import { SchemaUnreadable } from '../../postgres/schema-dump.ts';
import { findMasking, type MaskingRow, observeMasked } from '../../store/branch-maskings.ts';
import { finishRestore } from '../../store/branch-restores.ts';
import { adoptConfig } from '../../store/learned.ts';
import { findProject, findTimeline, observeTimelineReady } from '../../store/observations.ts';
import type { EngineContext } from '../context.ts';
import { cloneTemplate, fillFromSource, type RowsSource } from '../fill-from-source.ts';
import { discardTimeline, stopFirstServer } from '../first-start.ts';
import { takeBirthSnapshot } from '../history/birth.ts';
import { Revert } from '../revert.ts';
import type { RunOperation } from '../run-call.ts';
import { discardSchemaSource, schemaSourceId } from '../schema-source.ts';
import { stopPoint } from '../stop-point.ts';

/**
 * Makes the volume of an anonymized branch: a clone of the template that new projects begin with, filled from the copy of
 * the source that `create_branch` has made, with rows that are masked on their way. No file, page or log record of the
 * source is ever in it. Until it is done the branch has no volume, so that nobody can reach anything of it; when it cannot
 * be done, the copy stays for the next try.
 */
export const importData: RunOperation = async (ctx, operation, signal) => {
  const timeline = await findTimeline(ctx.store, operation.timeline_id!);
  const project = await findProject(ctx.store, operation.project_id);
  const masking = await findMasking(ctx.store, operation.branch_id!);
  if (!timeline || !project || !masking || timeline.deleted_at) return 'skipped';
  if (timeline.ready_at) {
    await discardSchemaSource(ctx, timeline.id);
    return 'finished';
  }
  const source = await ctx.storage.find(schemaSourceId(timeline.id));
  if (!source) throw new CoppiceError('not_anonymized', { reason: 'what it was to be made of is not here any more' });
  await discardTimeline(ctx, timeline.id);
  await using revert = new Revert((error) =>
    ctx.logger.error({ timeline_id: timeline.id, err: error }, 'could not undo a branch'),
  );
  revert.add(() => discardTimeline(ctx, timeline.id));
  // It waits for the next try asleep.
  revert.add(() => stopFirstServer(ctx, schemaSourceId(timeline.id)));
  const volume = await cloneTemplate(ctx, { timeline, project, signal });
  stopPoint('import_data:cloned');
  const rowsOf = (from: RowsSource) => rowsMaskedBy(ctx, masking, from, signal);
  const seen = await fillFromSource(ctx, { timeline, project, volume, source, signal }, rowsOf).catch((error) => {
    throw isForCaller(error) ? new CoppiceError('not_anonymized', { reason: error.message }, { cause: error }) : error;
  });
  stopPoint('import_data:filled');
  const { systemIdentifier } = await readControlFile(ctx.storage.path(volume));
  const birth = await takeBirthSnapshot(ctx, { timeline, project, volume, signal });
  // Durable, and in one: who sees the volume sees a branch that is anonymized.
  await ctx.intent.transaction().execute(async (trx) => {
    await finishRestore(trx, operation);
    if (operation.arguments.at_point) await adoptConfig(trx, masking.branch_id, seen);
    await observeTimelineReady(trx, timeline.id, { volume, system_identifier: String(systemIdentifier), birth });
    await observeMasked(trx, masking.branch_id, masking.rules.length);
  });
  revert.disarm();
  stopPoint('import_data:ready');
  await discardSchemaSource(ctx, timeline.id);
  return 'finished';
};

const isForCaller = (error: unknown): error is Error =>
  error instanceof MaskingRefused || error instanceof SchemaUnreadable || error instanceof RestoreRefused;

function rowsMaskedBy(
  ctx: EngineContext,
  { branch_id, rules }: MaskingRow,
  { dial, contents }: RowsSource,
  signal: AbortSignal,
): RowsToCopy {
  // Kept nowhere. Of the branch alone, so that what is the same in two branches cannot be told from their hashes.
  const key = createHmac('sha256', ctx.masking_key).update(branch_id).digest();
  const databases = contents.databases.map(({ name }) => name);
  return maskedRows(dial, { rules, key, databases, roles: ownersIn(contents), signal });
}
