import { createHash } from 'node:crypto';
import type { ComputeRange, ComputeUnits } from '../domain/compute-size.ts';
import type { PreloadChoice } from '../domain/preload-libraries.ts';
import type { ComputeRef, ComputeSpec } from '../drivers/compute/contract.ts';
import { pgHba, pgIdent } from '../postgres/access.ts';
import { postgresqlConf, quietConf, type SettingsSource } from '../postgres/settings.ts';
import type { EndpointFacts } from '../store/observations.ts';
import type { EngineContext, EngineDistribution } from './context.ts';
import { archiveSettings } from './history/archiving.ts';
import { volumeOwner } from './volume-owner.ts';

/** The distribution that a volume is pinned to. */
export function distributionOf(ctx: Pick<EngineContext, 'distributions'>, id: string): EngineDistribution {
  const found = ctx.distributions.get(id);
  if (!found) {
    throw new Error(`the Postgres distribution ${id} that this volume was made by is not installed here any more`);
  }
  return found;
}

/** The endpoint's compute, whether it runs or not. */
export const computeRef = (ctx: EngineContext, facts: Pick<EndpointFacts, 'id' | 'compute'>): ComputeRef =>
  facts.compute ?? { driver: ctx.compute.name, id: facts.id };

/** The size that limits are set for: the whole range is the compute's to use. */
export const currentSize = (range: ComputeRange): ComputeUnits => range.max_cu;

/**
 * A server that shows the past: nothing written is kept, nobody replicates from it, and what would only tidy it up would
 * keep it awake.
 */
const PAST: SettingsSource['platform'] = {
  default_transaction_read_only: true,
  archive_mode: false,
  autovacuum: false,
  max_wal_senders: 0,
  max_replication_slots: 0,
  max_logical_replication_workers: 0,
};

/**
 * For servers that replay a log to its end and go on. They take no sessions meanwhile, and so demand none of the settings
 * that a standby must have; and a page comes from the log before anything else is done to it, so that there is nothing to
 * fetch ahead.
 */
const REPLAY: SettingsSource['platform'] = { hot_standby: false, recovery_prefetch: 'off' };

/** What an endpoint's configuration is derived from. */
export function settingsSource(ctx: EngineContext, facts: EndpointFacts): SettingsSource {
  return {
    major: distributionOf(ctx, facts.distribution_id).major,
    range: facts,
    pg_settings: facts.pg_settings,
    logical_replication: facts.project_settings.enable_logical_replication === true,
    preload_libraries: facts.project_settings.preload_libraries as PreloadChoice | undefined,
    platform: { ...REPLAY, ...(facts.ephemeral_of ? PAST : archiveSettings(ctx, facts)) },
  };
}

/** The files that the endpoint's server reads. */
export function computeFiles(ctx: EngineContext, facts: EndpointFacts): ComputeSpec['files'] {
  return {
    'postgresql.conf': postgresqlConf(settingsSource(ctx, facts)),
    'pg_hba.conf': pgHba(),
    'pg_ident.conf': pgIdent(ctx.os_user),
  };
}

/** What the endpoint's server is started from. */
export function computeSpec(ctx: EngineContext, facts: EndpointFacts): ComputeSpec {
  if (!facts.volume) throw new Error(`timeline ${facts.timeline_id} has no volume`);
  return {
    id: computeRef(ctx, facts).id,
    distribution: distributionOf(ctx, facts.distribution_id),
    data_directory: ctx.storage.path(facts.volume),
    owner: volumeOwner(ctx, facts),
    files: computeFiles(ctx, facts),
    size: currentSize(facts),
  };
}

/**
 * For a server on a volume of its own that must not act: the first start of a child.
 *
 * @param child.enter_as roles that only the platform enters as there, without a password
 * @param child.replays it takes no sessions before it is promoted, and so checks none of its parent's limits
 */
export function quietSpec(
  ctx: Pick<EngineContext, 'compute' | 'distributions' | 'os_user'>,
  child: {
    id: string;
    distribution_id: string;
    data_directory: string;
    uid: number;
    replays: boolean;
    enter_as?: readonly string[];
  },
): ComputeSpec {
  const distribution = distributionOf(ctx, child.distribution_id);
  const range = { min_cu: 1, max_cu: 1 };
  return {
    id: child.id,
    distribution,
    data_directory: child.data_directory,
    owner: volumeOwner(ctx, child),
    files: {
      'postgresql.conf': quietConf({ major: distribution.major, range, platform: { hot_standby: !child.replays } }),
      'pg_hba.conf': pgHba(child.enter_as, { alone: true }),
      'pg_ident.conf': pgIdent(ctx.os_user, child.enter_as),
    },
    size: range.max_cu,
  };
}

/** Tells whether a running server was started from what is intended now. */
export function specHash(ctx: EngineContext, facts: EndpointFacts): string {
  const { files, size, distribution } = computeSpec(ctx, facts);
  return createHash('sha256')
    .update(JSON.stringify([files, size, distribution.id]))
    .digest('hex');
}
