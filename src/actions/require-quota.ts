import { CoppiceError, type ErrorName } from '../domain/errors.ts';
import { exceededQuota, periodOf, type Quota } from '../domain/usage.ts';
import type { ProjectView } from '../store/projects.ts';

const ERROR_OF = {
  active_time_seconds: 'active_time_quota',
  compute_time_seconds: 'compute_time_quota',
  written_data_bytes: 'written_data_quota',
  data_transfer_bytes: 'data_transfer_quota',
  logical_size_bytes: 'logical_size_quota',
} as const satisfies Record<keyof Quota, ErrorName>;

/**
 * Throws when a quota of the project is used up: then none of its computes is started. A quota of size is each branch's own.
 *
 * @param logical_bytes of the branch whose compute is to start; without, its size is not asked for
 */
export function requireQuota({ id, settings, usage }: ProjectView, logical_bytes = 0): void {
  const now = new Date();
  const exceeded = exceededQuota(settings.quota as Quota | undefined, usage, { now, logical_bytes });
  if (!exceeded) return;
  const { name, used, limit } = exceeded;
  const resets_at = `${periodOf(now).end.toISOString().slice(0, 19)}Z`;
  throw new CoppiceError(ERROR_OF[name], { project_id: id, used, limit, resets_at });
}
