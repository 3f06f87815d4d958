import { giveIdentity, readControlFile } from '../../postgres/control-file.ts';
import { findProject, findTimeline, observeTimelineReady } from '../../store/observations.ts';
import { takeBirthSnapshot } from '../history/birth.ts';
import type { RunOperation } from '../run-call.ts';
import { stopPoint } from '../stop-point.ts';
import { volumeOwner } from '../volume-owner.ts';

/** Gives a new project its volume: a clone of the template with an identity of its own. */
export const createTimeline: RunOperation = async (ctx, operation, signal) => {
  const timeline = await findTimeline(ctx.store, operation.timeline_id!);
  const project = await findProject(ctx.store, operation.project_id);
  if (!timeline || !project || timeline.deleted_at) return 'skipped';
  if (timeline.ready_at) return 'finished';
  const template = await ctx.template(timeline.distribution_id);
  signal.throwIfAborted();
  const volume = await ctx.storage.ensureCloned(template, timeline.id, {
    owner: volumeOwner(ctx, project),
    signal,
    prepare: async (path) => {
      await giveIdentity(path);
      stopPoint('create_timeline:cloned');
    },
  });
  const { systemIdentifier } = await readControlFile(ctx.storage.path(volume));
  stopPoint('create_timeline:made');
  const birth = await takeBirthSnapshot(ctx, { timeline, project, volume, signal });
  // Durable, unlike other observations: a volume that is not known to be ready is made anew, whatever it holds by then.
  await observeTimelineReady(ctx.intent, timeline.id, { volume, system_identifier: String(systemIdentifier), birth });
  return 'finished';
};
