import type { BackupScheduleRow } from '../../store/schema.ts';
import type { SnapshotView } from '../../store/snapshots.ts';
import type { BackupSchedule, Snapshot } from '../schemas/snapshot.ts';
import { optionalTimestamp, timestamp } from './timestamp.ts';

/** A snapshot as the API shows it. What it holds is known once it is made. */
export function serializeSnapshot(row: SnapshotView): Snapshot {
  return {
    id: row.id,
    name: row.name,
    lsn: row.lsn ?? undefined,
    timestamp: optionalTimestamp(row.timestamp),
    source_branch_id: row.source_branch_id,
    created_at: timestamp(row.created_at),
    expires_at: optionalTimestamp(row.expires_at),
    manual: row.manual,
    full_size: row.logical_size_bytes ?? undefined,
  };
}

/** A schedule as it was set: fields that were left out stay so. */
export function serializeBackupSchedule(rows: readonly BackupScheduleRow[]): BackupSchedule {
  return {
    schedule: rows.map((row) => ({
      frequency: row.frequency,
      hour: row.hour ?? undefined,
      day: row.day ?? undefined,
      month: row.month ?? undefined,
      retention_seconds: row.retention_seconds ?? undefined,
    })),
  };
}
