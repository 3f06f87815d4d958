import type { ComputeRef } from '../drivers/compute/contract.ts';
import { type ControlFile, readControlFile } from '../postgres/control-file.ts';
import type { TimelineRow } from '../store/schema.ts';
import { configRef } from './apply-at-rest.ts';
import type { EngineContext } from './context.ts';
import { findRunningServer } from './running-server.ts';

/** What a replica finds at the timeline that it follows. */
export type PrimaryState =
  | { readonly state: 'running'; readonly compute: ComputeRef }
  /** Nobody writes to its volume. `control.clean`: its log ends with the checkpoint of an orderly stop. */
  | { readonly state: 'stopped'; readonly control: ControlFile };

/** Looks whether a timeline's server runs. What a killed one left running is ended. @throws while we ourselves write to it */
export async function primaryState(ctx: EngineContext, timeline: TimelineRow): Promise<PrimaryState> {
  if (!timeline.volume) throw new Error(`timeline ${timeline.id} has no volume`);
  if ((await ctx.compute.observe(configRef(ctx, timeline.id))).state === 'running') {
    throw new Error(`roles and databases are just being brought to timeline ${timeline.id}`);
  }
  const compute = await findRunningServer(ctx, timeline.id);
  if (compute) return { state: 'running', compute };
  return { state: 'stopped', control: await readControlFile(ctx.storage.path(timeline.volume)) };
}
