import Type, { type Static } from 'typebox';
import { LIMITS } from '../../domain/limits.ts';
import { ConnectionDetails } from './connection.ts';
import { Database } from './database.ts';
import { ComputeFields, Endpoint, EndpointType } from './endpoint.ts';
import { Id, inProject, Name, Timestamp } from './fields.ts';
import { MaskingRules } from './masking.ts';
import { Operations } from './operation.ts';
import { Role } from './role.ts';

const State = Type.String({ enum: ['init', 'resetting', 'ready', 'archived', 'storage_deleted'] });
const Moment = Type.String({ format: 'date-time' });

export const Branch = Type.Object({
  id: Type.String(),
  project_id: Type.String(),
  parent_id: Type.Optional(Type.String()),
  parent_lsn: Type.Optional(Type.String()),
  parent_timestamp: Type.Optional(Timestamp),
  name: Type.String(),
  current_state: State,
  pending_state: Type.Optional(State),
  state_changed_at: Timestamp,
  logical_size: Type.Optional(Type.Integer()),
  creation_source: Type.String(),
  primary: Type.Boolean(),
  default: Type.Boolean(),
  protected: Type.Boolean(),
  cpu_used_sec: Type.Integer(),
  compute_time_seconds: Type.Integer(),
  active_time_seconds: Type.Integer(),
  written_data_bytes: Type.Integer(),
  data_transfer_bytes: Type.Integer(),
  created_at: Timestamp,
  updated_at: Timestamp,
  ttl_interval_seconds: Type.Optional(Type.Integer()),
  expires_at: Type.Optional(Timestamp),
  last_reset_at: Type.Optional(Timestamp),
  created_by: Type.Object({ name: Type.String(), image: Type.String() }),
  init_source: Type.String(),
  restricted_actions: Type.Array(Type.Object({ name: Type.String(), reason: Type.String() })),
  restore_status: Type.Optional(Type.String()),
  restored_from: Type.Optional(Type.String()),
  restored_as: Type.Optional(Type.String()),
  recovery: Type.Optional(
    Type.Object({
      deleted_at: Timestamp,
      recoverable_until: Timestamp,
      deletion_method: Type.String({ enum: ['user', 'ttl'] }),
    }),
  ),
});
export type Branch = Static<typeof Branch>;

export const AnnotationValue = Type.Record(Type.String(), Type.String(), {
  maxProperties: LIMITS.annotations_per_branch,
});
export const BranchAnnotation = Type.Object({
  object: Type.Object({ type: Type.String(), id: Type.String() }),
  value: AnnotationValue,
  created_at: Timestamp,
  updated_at: Timestamp,
});
export type BranchAnnotation = Static<typeof BranchAnnotation>;

export const BranchParams = inProject({ branch_id: Id });

const LeaseSeconds = Type.Integer({
  minimum: LIMITS.branch_lease_seconds_min,
  maximum: LIMITS.branch_expiry_seconds_max,
  description: 'The branch is deleted after so long unless its lease is renewed',
});

const NewBranch = Type.Object({
  /** Empty means the default branch. */
  parent_id: Type.Optional(Type.Union([Id, Type.Literal('')])),
  name: Type.Optional(Name()),
  parent_lsn: Type.Optional(Type.String()),
  parent_timestamp: Type.Optional(Type.String()),
  protected: Type.Optional(Type.Boolean()),
  archived: Type.Optional(Type.Boolean()),
  init_source: Type.Optional(Type.String()),
  expires_at: Type.Optional(Moment),
  lease_ttl_seconds: Type.Optional(LeaseSeconds),
});

const BranchFields = {
  branch: Type.Optional(NewBranch),
  endpoints: Type.Optional(
    Type.Array(Type.Object({ ...ComputeFields, type: EndpointType }), { maxItems: LIMITS.endpoints_per_call }),
  ),
  annotation_value: Type.Optional(AnnotationValue),
};

export const BranchCreate = Type.Union([
  Type.Object({
    if_absent: Type.Optional(Type.Boolean({ description: 'A branch of that name is given back instead' })),
    ...BranchFields,
  }),
  Type.Null(),
]);

export const AnonymizedBranchCreate = Type.Object({
  branch_create: Type.Optional(Type.Object(BranchFields)),
  masking_rules: Type.Optional(MaskingRules),
  start_anonymization: Type.Optional(Type.Boolean({ description: 'False, as without it: it waits for its own call' })),
  annotation_value: Type.Optional(AnnotationValue),
});
export const BranchUpdate = Type.Object({
  branch: Type.Object({
    name: Type.Optional(Name()),
    protected: Type.Optional(Type.Boolean()),
    /** Null takes it away. */
    expires_at: Type.Optional(Type.Union([Moment, Type.Null()])),
  }),
});

export const LeaseRenewal = Type.Union([Type.Object({ lease_ttl_seconds: Type.Optional(LeaseSeconds) }), Type.Null()]);

export const BranchRestore = Type.Object({
  source_branch_id: Id,
  source_lsn: Type.Optional(Type.String()),
  source_timestamp: Type.Optional(Type.String()),
  /** Empty: the state from before is given up. */
  preserve_under_name: Type.Optional(Type.Union([Name(), Type.Literal('')])),
});

export const CreatedBranch = Type.Object({
  branch: Branch,
  endpoints: Type.Array(Endpoint),
  operations: Operations,
  roles: Type.Array(Role),
  databases: Type.Array(Database),
  connection_uris: Type.Optional(Type.Array(ConnectionDetails)),
});
export const RecoveredBranch = Type.Object({ branch: Branch, endpoints: Type.Array(Endpoint) });
export const BranchOperations = Type.Object({ branch: Branch, operations: Operations });
export const Branches = Type.Object({
  branches: Type.Array(Branch),
  annotations: Type.Record(Type.String(), BranchAnnotation),
  pagination: Type.Object({
    next: Type.Optional(Type.String()),
    sort_by: Type.String(),
    sort_order: Type.String(),
  }),
});
