import type { EndpointFacts } from '../../store/observations.ts';
import type { EngineContext } from '../context.ts';
import { volumeOwner } from '../volume-owner.ts';

type ArchivingFacts = Pick<EndpointFacts, 'type' | 'timeline_id' | 'ephemeral_of' | 'history_retention_seconds'>;

/**
 * Whether the endpoint's server is to hand its log over: it is the one that writes it, the project keeps a history, and the
 * branch is not one that passes.
 */
const archives = ({ type, ephemeral_of, history_retention_seconds }: ArchivingFacts): boolean =>
  type === 'read_write' && !ephemeral_of && history_retention_seconds > 0;

/**
 * The settings that make a server hand over its log. Archiving is always on, since turning it on takes a restart; a
 * project without a history gets a command that says "done", for without one the log would pile up.
 */
export function archiveSettings(ctx: EngineContext, facts: ArchivingFacts): Readonly<Record<string, string | boolean>> {
  if (facts.type !== 'read_write') return {};
  const archive_command = archives(facts) ? ctx.archive.archiveCommand(facts.timeline_id) : 'true';
  return { archive_mode: true, archive_command };
}

/** What `archive_command` names is there. Call before a server is told of it. */
export async function readyArchive(
  ctx: EngineContext,
  facts: ArchivingFacts & Pick<EndpointFacts, 'uid'>,
): Promise<void> {
  if (archives(facts)) await ctx.archive.ensureReady(facts.timeline_id, volumeOwner(ctx, facts));
}
