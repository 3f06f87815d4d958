import Type, { type Static } from 'typebox';
import { BACKUP_FREQUENCIES } from '../../domain/backup-schedule.ts';
import { LIMITS } from '../../domain/limits.ts';
import { Branch } from './branch.ts';
import { Endpoint } from './endpoint.ts';
import { Id, inProject, Name, Timestamp } from './fields.ts';
import { Operations } from './operation.ts';

const Moment = Type.String({ format: 'date-time' });

export const Snapshot = Type.Object({
  id: Type.String(),
  name: Type.String(),
  lsn: Type.Optional(Type.String()),
  timestamp: Type.Optional(Timestamp),
  source_branch_id: Type.String(),
  created_at: Timestamp,
  expires_at: Type.Optional(Timestamp),
  manual: Type.Boolean(),
  full_size: Type.Optional(Type.Integer()),
});
export type Snapshot = Static<typeof Snapshot>;

export const SnapshotParams = inProject({ snapshot_id: Id });

const creation = {
  name: Type.Optional(Name()),
  lsn: Type.Optional(Type.String()),
  timestamp: Type.Optional(Type.String()),
  expires_at: Type.Optional(Moment),
};
/** The public API takes these in the query; its documents show a body as well. */
export const SnapshotCreateQuery = Type.Object(creation);
export const SnapshotCreate = Type.Union([Type.Object(creation), Type.Null()]);

export const SnapshotUpdate = Type.Object({
  snapshot: Type.Object({
    name: Type.Optional(Name()),
    /** Null takes it away. */
    expires_at: Type.Optional(Type.Union([Moment, Type.Null()])),
  }),
});

export const RestoreQuery = Type.Object({ name: Type.Optional(Name()) });
export const SnapshotRestore = Type.Union([
  Type.Object({
    name: Type.Optional(Name()),
    target_branch_id: Type.Optional(Type.Union([Id, Type.Literal('')])),
    finalize_restore: Type.Optional(Type.Boolean()),
  }),
  Type.Null(),
]);
export const FinalizeRestore = Type.Union([Type.Object({ name: Type.Optional(Name()) }), Type.Null()]);

export const RestoredSnapshot = Type.Object({
  branch: Branch,
  endpoints: Type.Array(Endpoint),
  operations: Operations,
});

export const BackupSchedule = Type.Object({
  schedule: Type.Array(
    Type.Object({
      frequency: Type.Enum([...BACKUP_FREQUENCIES]),
      hour: Type.Optional(Type.Integer({ minimum: 0, maximum: 23 })),
      day: Type.Optional(Type.Integer({ minimum: 1, maximum: 31 })),
      month: Type.Optional(Type.Integer({ minimum: 1, maximum: 12 })),
      retention_seconds: Type.Optional(
        Type.Integer({
          minimum: LIMITS.snapshot_retention_seconds_min,
          maximum: LIMITS.snapshot_retention_seconds_max,
        }),
      ),
    }),
    { maxItems: LIMITS.backup_schedule_items },
  ),
});
export type BackupSchedule = Static<typeof BackupSchedule>;
