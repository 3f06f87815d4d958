import { createHash, createHmac } from 'node:crypto';
import type { ComputeSpec } from '../drivers/compute/contract.ts';
import type { VolumeRef } from '../drivers/storage/contract.ts';
import { pgHba, pgIdent, REPLICATION_ROLE } from '../postgres/access.ts';
import { highestFloor, postgresqlConf, type StandbyFloor, standbyFloor } from '../postgres/settings.ts';
import { STANDBY_SETTINGS } from '../postgres/standby.ts';
import type { EndpointFacts } from '../store/observations.ts';
import type { EndpointRow } from '../store/schema.ts';
import { computeRef, currentSize, distributionOf, settingsSource } from './compute-spec.ts';
import type { EngineContext } from './context.ts';
import { volumeOwner } from './volume-owner.ts';

/** The read_write endpoint of a replica's branch. */
export type Primary = Pick<EndpointRow, 'id' | 'compute' | 'min_cu' | 'max_cu' | 'pg_settings'>;

/** What a replica is started from besides its own endpoint. */
export interface ReplicaSurroundings {
  readonly volume: VolumeRef;
  readonly primary: Primary | undefined;
  /** What servers that the log comes from ran with. */
  readonly floors: readonly StandbyFloor[];
}

/** What a timeline's replicas stream with. It is reckoned, so that nothing has to be kept, and lost. */
export const replicationPassword = (ctx: EngineContext, timelineId: string): string =>
  createHmac('sha256', ctx.replication_key).update(timelineId).digest('base64url');

/** The files that a replica's server reads: its own size, and nothing below what its primary demands. */
export function replicaFiles(
  ctx: EngineContext,
  facts: EndpointFacts,
  { primary, floors }: Pick<ReplicaSurroundings, 'primary' | 'floors'>,
): ComputeSpec['files'] {
  const source = settingsSource(ctx, facts);
  const demanded = primary && standbyFloor({ ...source, range: primary, pg_settings: primary.pg_settings });
  const floor = highestFloor([standbyFloor(source), ...(demanded ? [demanded] : []), ...floors]);
  return {
    'postgresql.conf': postgresqlConf({ ...source, platform: { ...STANDBY_SETTINGS, ...floor } }),
    'pg_hba.conf': pgHba(),
    'pg_ident.conf': pgIdent(ctx.os_user),
  };
}

/** What a replica's server is started from. */
export function replicaSpec(ctx: EngineContext, facts: EndpointFacts, surroundings: ReplicaSurroundings): ComputeSpec {
  const { volume, primary } = surroundings;
  return {
    id: facts.id,
    distribution: distributionOf(ctx, facts.distribution_id),
    data_directory: ctx.storage.path(volume),
    owner: volumeOwner(ctx, facts),
    files: replicaFiles(ctx, facts, surroundings),
    size: currentSize(facts),
    primary: primary && {
      id: computeRef(ctx, primary).id,
      user: REPLICATION_ROLE,
      password: replicationPassword(ctx, facts.timeline_id),
    },
  };
}

/**
 * Tells whether a running replica was started from what is intended now. What its primary demands is left out: growing
 * one restarts its replicas, and shrinking one need not.
 */
export function replicaHash(ctx: EngineContext, facts: EndpointFacts, primary: Primary | undefined): string {
  const conf = postgresqlConf({ ...settingsSource(ctx, facts), platform: STANDBY_SETTINGS });
  return createHash('sha256')
    .update(
      JSON.stringify([conf, currentSize(facts), facts.distribution_id, primary ? computeRef(ctx, primary).id : null]),
    )
    .digest('hex');
}
