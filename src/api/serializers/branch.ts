import type { InstallationFacts } from '../../actions/context.ts';
import { branchState } from '../../domain/states.ts';
import { usedInPeriod } from '../../domain/usage.ts';
import type { BranchView } from '../../store/branches.ts';
import type { Branch, BranchAnnotation } from '../schemas/branch.ts';
import { optionalTimestamp, timestamp } from './timestamp.ts';

/**
 * A branch as the API shows it. Its state changed last when its volume stood, when it went to the archive or came from it,
 * when a restore began, or when it was deleted.
 */
export function serializeBranch(row: BranchView): Branch {
  const restoring = row.previous_timeline_id !== null;
  const used = usedInPeriod(row.usage, new Date());
  return {
    id: row.id,
    project_id: row.project_id,
    parent_id: row.parent_id ?? undefined,
    parent_lsn: row.parent_lsn ?? undefined,
    parent_timestamp: optionalTimestamp(row.parent_timestamp),
    name: row.name,
    ...branchState({
      // The data of one that can come back is as it was.
      ...{ ready_at: row.ready_at, deleted: row.deleted_at !== null && row.deletion_method === null, restoring },
      ...{ archived: row.archived_at !== null, archive_pending: row.archive_pending },
    }),
    state_changed_at: timestamp(
      row.deleted_at ??
        row.archived_at ??
        (row.ready_at && row.unarchived_at) ??
        row.ready_at ??
        row.last_reset_at ??
        row.created_at,
    ),
    logical_size: row.logical_size_bytes ?? undefined,
    creation_source: 'console',
    primary: row.is_default,
    default: row.is_default,
    protected: row.protected,
    cpu_used_sec: used.compute_time_seconds,
    ...used,
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
    ttl_interval_seconds: row.ttl_interval_seconds ?? undefined,
    expires_at: optionalTimestamp(row.expires_at),
    last_reset_at: optionalTimestamp(row.last_reset_at),
    created_by: { name: row.creator ?? '', image: '' },
    init_source: row.init_source,
    restricted_actions: row.protected
      ? [
          { name: 'restore', reason: 'cannot reset protected branch' },
          { name: 'delete-rw-endpoint', reason: 'cannot delete the endpoint of a protected branch' },
        ]
      : [],
    restore_status: row.restore_status ?? undefined,
    restored_from: row.restored_from ?? undefined,
    restored_as: row.restored_as ?? undefined,
  };
}

/** A branch in a list that may hold deleted ones as well: those say until when they can come back. */
export function serializeListedBranch(row: BranchView, installation: InstallationFacts): Branch {
  const branch = serializeBranch(row);
  if (!row.deleted_at || !row.deletion_method) return branch;
  const until = row.deleted_at.getTime() + (installation.keep_deleted_branches_seconds ?? 0) * 1000;
  return {
    ...branch,
    recovery: {
      deleted_at: timestamp(row.deleted_at),
      recoverable_until: timestamp(new Date(until)),
      deletion_method: row.deletion_method,
    },
  };
}

/** What callers noted on a branch. */
export function serializeBranchAnnotation(row: BranchView): BranchAnnotation {
  return {
    object: { type: 'console/branch', id: row.id },
    value: row.annotations,
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.created_at),
  };
}
