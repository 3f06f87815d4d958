import Type, { type Static } from 'typebox';

const Values = Type.Record(Type.String(), Type.Unknown());

const AuditedChange = Type.Object({
  noun: Type.String(),
  id: Type.String(),
  change: Type.Enum(['create', 'update', 'delete']),
  organization_id: Type.Optional(Type.String()),
  project_id: Type.Optional(Type.String()),
  branch_id: Type.Optional(Type.String()),
  before: Type.Optional(Values),
  after: Type.Optional(Values),
});

export const AuditEntry = Type.Object({
  id: Type.Integer(),
  at: Type.String({ format: 'date-time' }),
  action: Type.String(),
  actor: Type.Object({
    kind: Type.String(),
    user_id: Type.Optional(Type.String()),
    email: Type.Optional(Type.String()),
    key_id: Type.Optional(Type.Integer()),
  }),
  address: Type.Optional(Type.String()),
  user_agent: Type.Optional(Type.String()),
  request_id: Type.Optional(Type.String()),
  project_id: Type.Optional(Type.String()),
  target: Values,
  changes: Type.Array(AuditedChange),
  changes_cut: Type.Boolean({ description: 'There were more changes than are kept' }),
});
export type AuditEntry = Static<typeof AuditEntry>;

export const AuditLog = Type.Object({
  entries: Type.Array(AuditEntry),
  pagination: Type.Optional(Type.Object({ cursor: Type.String() })),
});
