import Type, { type Static } from 'typebox';
import { OPERATION_KINDS, OPERATION_STATUSES } from '../../domain/operation-kinds.ts';
import { Timestamp, Uuid } from './fields.ts';

export const Operation = Type.Object({
  id: Uuid,
  project_id: Type.String(),
  branch_id: Type.Optional(Type.String()),
  endpoint_id: Type.Optional(Type.String()),
  action: Type.String({ enum: Object.keys(OPERATION_KINDS) }),
  status: Type.String({ enum: [...OPERATION_STATUSES] }),
  error: Type.Optional(Type.String()),
  failures_count: Type.Integer(),
  retry_at: Type.Optional(Timestamp),
  created_at: Timestamp,
  updated_at: Timestamp,
  total_duration_ms: Type.Integer(),
});
export type Operation = Static<typeof Operation>;

export const Operations = Type.Array(Operation);
