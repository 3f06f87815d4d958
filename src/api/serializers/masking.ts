import type { Static } from 'typebox';
import type { MaskingView } from '../../store/branch-maskings.ts';
import type { AnonymizedStatus } from '../schemas/masking.ts';
import { optionalTimestamp, timestamp } from './timestamp.ts';

/** How far the masking of a branch is, and what came of the last one that was asked for. */
export function serializeAnonymizedStatus(row: MaskingView): Static<typeof AnonymizedStatus> {
  return {
    project_id: row.project_id,
    branch_id: row.branch_id,
    state: row.state,
    status_message: row.error ?? undefined,
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
    failed_at: optionalTimestamp(row.failed_at),
    last_run: row.asked_at
      ? {
          started_at: timestamp(row.asked_at),
          completed_at: optionalTimestamp(row.completed_at ?? row.failed_at),
          triggered_by: row.asked_by ?? undefined,
          triggered_by_username: row.asker ?? undefined,
          masked_columns: row.masked_columns ?? undefined,
        }
      : undefined,
  };
}
