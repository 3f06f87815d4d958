import { sql } from 'kysely';
import type { ProjectId } from '../domain/ids.ts';
import type { Quota, Usage } from '../domain/usage.ts';
import type { Store } from './connection.ts';

/** A project with a quota and a compute that runs. */
export interface QuotaUse {
  readonly id: ProjectId;
  readonly quota: Quota;
  readonly usage: Usage | null;
  /** The largest of its branches with such a compute, as it was last measured. */
  readonly logical_bytes: number;
}

export async function findQuotaUses(store: Store): Promise<QuotaUse[]> {
  const { rows } = await sql<QuotaUse>`
    select projects.id, projects.settings -> 'quota' as quota,
      (select to_jsonb(project_usage) from project_usage where project_id = projects.id) as usage, running.logical_bytes
    from (
      select endpoints.project_id, coalesce(max(timelines.logical_size_bytes), 0) as logical_bytes
      from endpoints join branches on branches.id = endpoints.branch_id
      join timelines on timelines.id = branches.timeline_id
      where endpoints.observed_state in ('running', 'stopping') and endpoints.deleted_at is null
      group by endpoints.project_id
    ) running join projects on projects.id = running.project_id
    where projects.deleted_at is null and jsonb_typeof(projects.settings -> 'quota') = 'object'
    order by projects.id`.execute(store);
  return rows;
}
