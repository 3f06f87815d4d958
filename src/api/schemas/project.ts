import Type, { type Static } from 'typebox';
import { LIMITS } from '../../domain/limits.ts';
import { AnnotationValue, Branch } from './branch.ts';
import { ConnectionDetails } from './connection.ts';
import { Database } from './database.ts';
import { Endpoint } from './endpoint.ts';
import { Id, Identifier, Name, Timestamp } from './fields.ts';
import { Operations } from './operation.ts';
import { Role } from './role.ts';

const PgSettings = Type.Record(Type.String(), Type.String());
const Limit = Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }));
const Minute = Type.String({ pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]$' });

const EndpointDefaults = Type.Object({
  pg_settings: Type.Optional(PgSettings),
  pgbouncer_settings: Type.Optional(PgSettings),
  autoscaling_limit_min_cu: Type.Optional(Type.Number()),
  autoscaling_limit_max_cu: Type.Optional(Type.Number()),
  suspend_timeout_seconds: Type.Optional(Type.Integer({ minimum: -1, maximum: LIMITS.suspend_timeout_seconds_max })),
});

const Settings = Type.Object({
  quota: Type.Optional(
    Type.Object({
      active_time_seconds: Limit,
      compute_time_seconds: Limit,
      written_data_bytes: Limit,
      data_transfer_bytes: Limit,
      logical_size_bytes: Limit,
    }),
  ),
  allowed_ips: Type.Optional(
    Type.Object({
      ips: Type.Optional(Type.Array(Type.String())),
      protected_branches_only: Type.Optional(Type.Boolean()),
    }),
  ),
  enable_logical_replication: Type.Optional(Type.Boolean()),
  maintenance_window: Type.Optional(
    Type.Object({
      weekdays: Type.Array(Type.Integer({ minimum: 1, maximum: 7 }), { maxItems: 7 }),
      start_time: Minute,
      end_time: Minute,
    }),
  ),
  block_public_connections: Type.Optional(Type.Boolean()),
  block_vpc_connections: Type.Optional(Type.Boolean()),
  audit_log_level: Type.Optional(Type.Enum(['base', 'extended', 'full'])),
  hipaa: Type.Optional(Type.Boolean()),
  preload_libraries: Type.Optional(
    Type.Object({
      use_defaults: Type.Optional(Type.Boolean()),
      enabled_libraries: Type.Optional(Type.Array(Type.String())),
    }),
  ),
});

const Facts = {
  id: Type.String(),
  platform_id: Type.String(),
  region_id: Type.String(),
  name: Type.String(),
  provisioner: Type.String(),
  default_endpoint_settings: EndpointDefaults,
  settings: Settings,
  pg_version: Type.Integer(),
  proxy_host: Type.String(),
  branch_logical_size_limit: Type.Integer(),
  branch_logical_size_limit_bytes: Type.Integer(),
  store_passwords: Type.Boolean(),
  cpu_used_sec: Type.Integer(),
  synthetic_storage_size: Type.Integer(),
  locked: Type.Boolean(),
  creation_source: Type.String(),
  history_retention_seconds: Type.Integer(),
  owner_id: Type.String(),
  org_id: Type.String(),
  created_at: Timestamp,
  updated_at: Timestamp,
};

export const Project = Type.Object({
  ...Facts,
  data_storage_bytes_hour: Type.Integer(),
  data_transfer_bytes: Type.Integer(),
  written_data_bytes: Type.Integer(),
  compute_time_seconds: Type.Integer(),
  active_time_seconds: Type.Integer(),
  consumption_period_start: Timestamp,
  consumption_period_end: Timestamp,
});
export const ProjectListItem = Type.Object({
  ...Facts,
  active_time: Type.Integer(),
  deleted_at: Type.Optional(Timestamp),
  recoverable_until: Type.Optional(Timestamp),
});
export type Project = Static<typeof Project>;
export type ProjectListItem = Static<typeof ProjectListItem>;

export const ProjectCreate = Type.Object({
  project: Type.Object({
    name: Type.Optional(Name()),
    org_id: Type.Optional(Id),
    region_id: Type.Optional(Type.String()),
    pg_version: Type.Optional(Type.Integer()),
    provisioner: Type.Optional(Type.Enum(['k8s-pod', 'k8s-neonvm', 'serverless-platform'])),
    store_passwords: Type.Optional(Type.Boolean()),
    history_retention_seconds: Type.Optional(Type.Integer({ minimum: 0 })),
    autoscaling_limit_min_cu: Type.Optional(Type.Number()),
    autoscaling_limit_max_cu: Type.Optional(Type.Number()),
    default_endpoint_settings: Type.Optional(EndpointDefaults),
    settings: Type.Optional(Settings),
    branch: Type.Optional(
      Type.Object({
        name: Type.Optional(Name()),
        role_name: Type.Optional(Identifier),
        database_name: Type.Optional(Identifier),
        annotations: Type.Optional(AnnotationValue),
      }),
    ),
  }),
});
export const ProjectUpdate = Type.Object({
  project: Type.Object({
    name: Type.Optional(Name()),
    history_retention_seconds: Type.Optional(Type.Integer({ minimum: 0 })),
    default_endpoint_settings: Type.Optional(EndpointDefaults),
    settings: Type.Optional(Settings),
  }),
});

export const CreatedProject = Type.Object({
  project: Project,
  connection_uris: Type.Array(ConnectionDetails),
  roles: Type.Array(Role),
  databases: Type.Array(Database),
  operations: Operations,
  branch: Branch,
  endpoints: Type.Array(Endpoint),
});

export const RecoveredProject = Type.Object({ project: Project, branches: Type.Array(Branch) });

const Applications = Type.Record(Type.String(), Type.Array(Type.String()));
const Pagination = Type.Optional(Type.Object({ cursor: Type.String() }));
export const Projects = Type.Object({
  projects: Type.Array(ProjectListItem),
  pagination: Pagination,
  applications: Applications,
  integrations: Applications,
});
export const SharedProjects = Type.Object({ projects: Type.Array(ProjectListItem), pagination: Pagination });
