import type { OperationRow } from '../../store/schema.ts';
import type { Operation } from '../schemas/operation.ts';
import { optionalTimestamp, timestamp } from './timestamp.ts';

/** An operation as the API shows it. Its duration counts from its first attempt, and is 0 until it has ended. */
export function serializeOperation(row: OperationRow): Operation {
  return {
    id: row.id,
    project_id: row.project_id,
    branch_id: row.branch_id ?? undefined,
    endpoint_id: row.endpoint_id ?? undefined,
    action: row.action,
    status: row.status,
    error: row.error ?? undefined,
    failures_count: row.failures_count,
    retry_at: optionalTimestamp(row.retry_at),
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
    total_duration_ms: row.started_at && row.finished_at ? row.finished_at.getTime() - row.started_at.getTime() : 0,
  };
}
