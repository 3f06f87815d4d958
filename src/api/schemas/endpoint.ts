import Type, { type Static } from 'typebox';
import { LIMITS } from '../../domain/limits.ts';
import { Id, inProject, Name, Timestamp } from './fields.ts';
import { Operations } from './operation.ts';

const State = Type.String({ enum: ['init', 'active', 'idle'] });
const PgSettings = Type.Record(Type.String(), Type.String());

export const EndpointType = Type.Enum(['read_write', 'read_only']);

export const Endpoint = Type.Object({
  host: Type.String(),
  id: Type.String(),
  name: Type.Optional(Type.String()),
  project_id: Type.String(),
  branch_id: Type.String(),
  autoscaling_limit_min_cu: Type.Number(),
  autoscaling_limit_max_cu: Type.Number(),
  region_id: Type.String(),
  type: Type.String({ enum: ['read_write', 'read_only'] }),
  current_state: State,
  pending_state: Type.Optional(State),
  settings: Type.Object({ pg_settings: PgSettings }),
  pooler_enabled: Type.Boolean(),
  pooler_mode: Type.String({ enum: ['transaction'] }),
  disabled: Type.Boolean(),
  passwordless_access: Type.Boolean(),
  last_active: Type.Optional(Timestamp),
  creation_source: Type.String(),
  created_at: Timestamp,
  updated_at: Timestamp,
  started_at: Type.Optional(Timestamp),
  suspended_at: Type.Optional(Timestamp),
  proxy_host: Type.String(),
  suspend_timeout_seconds: Type.Integer(),
  provisioner: Type.String(),
});
export type Endpoint = Static<typeof Endpoint>;

/** What this version cannot do is refused by the action when it is asked for, so it is part of the schema. */
const EndpointSettings = Type.Object({
  pg_settings: Type.Optional(PgSettings),
  pgbouncer_settings: Type.Optional(PgSettings),
  preload_libraries: Type.Optional(
    Type.Object({
      use_defaults: Type.Optional(Type.Boolean()),
      enabled_libraries: Type.Optional(Type.Array(Type.String())),
    }),
  ),
});

/** Sizes and times are checked by rules of their own, which say more than a schema can. */
export const ComputeFields = {
  settings: Type.Optional(EndpointSettings),
  autoscaling_limit_min_cu: Type.Optional(Type.Number()),
  autoscaling_limit_max_cu: Type.Optional(Type.Number()),
  provisioner: Type.Optional(Type.String()),
  suspend_timeout_seconds: Type.Optional(Type.Integer({ minimum: -1, maximum: LIMITS.suspend_timeout_seconds_max })),
};

const IntentFields = {
  ...ComputeFields,
  pooler_enabled: Type.Optional(Type.Boolean()),
  pooler_mode: Type.Optional(Type.Enum(['transaction'])),
  disabled: Type.Optional(Type.Boolean()),
  passwordless_access: Type.Optional(Type.Boolean()),
  name: Type.Optional(Name(LIMITS.short_name_characters)),
};

export const EndpointParams = inProject({ endpoint_id: Id });
export const EndpointCreate = Type.Object({
  endpoint: Type.Object({
    ...IntentFields,
    branch_id: Id,
    type: EndpointType,
    region_id: Type.Optional(Type.String()),
  }),
});
export const EndpointUpdate = Type.Object({
  endpoint: Type.Object({ ...IntentFields, branch_id: Type.Optional(Id) }),
});
export const EndpointOperations = Type.Object({ endpoint: Endpoint, operations: Operations });
