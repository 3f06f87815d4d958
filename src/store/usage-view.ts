import { sql } from 'kysely';
import type { ProjectUsage, Usage } from '../domain/usage.ts';

/** Totals beside the row of what they are of, in the statement that reads it; null where nothing was ever used. */

export const PROJECT_USAGE = sql<ProjectUsage | null>`(
  select to_jsonb(project_usage) from project_usage where project_usage.project_id = projects.id
)`;

export const BRANCH_USAGE = sql<Usage | null>`(
  select to_jsonb(branch_usage) from branch_usage where branch_usage.branch_id = branches.id
)`;
