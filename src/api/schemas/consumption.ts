import Type from 'typebox';
import { GRANULARITIES } from '../../domain/timeframes.ts';
import { Id, Timestamp } from './fields.ts';

/** A list as clients send it: repeated, or joined by commas. What is in it is for the route to check. */
const List = (description: string) =>
  Type.Union([Type.String({ maxLength: 10_000 }), Type.Array(Type.String({ maxLength: 10_000 }), { maxItems: 100 })], {
    description,
  });

const Range = {
  cursor: Type.Optional(Type.String({ maxLength: 60, description: 'Where the page before ended' })),
  from: Type.String({ format: 'date-time', description: 'Rounded down to the granularity' }),
  to: Type.String({
    format: 'date-time',
    description: 'Rounded down to the granularity; what begins then is not told',
  }),
  granularity: Type.Enum(GRANULARITIES),
};
const Projects = {
  ...Range,
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
  project_ids: Type.Optional(List('Only these projects')),
};

export const ConsumptionQuery = Type.Object({
  ...Projects,
  org_id: Type.Optional(Id),
  include_v1_metrics: Type.Optional(Type.Boolean()),
  metrics: Type.Optional(List('What is told beside the four that always are')),
});
export const ConsumptionV2Query = Type.Object({ ...Projects, org_id: Id, metrics: List('What is told') });
export const BranchConsumptionQuery = Type.Object({
  ...Range,
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000 })),
  project_ids: List('The projects whose branches are told of'),
  branch_ids: Type.Optional(List('Only these branches')),
  org_id: Id,
  metrics: List('What is told'),
});

const Timeframe = Type.Object({
  timeframe_start: Timestamp,
  timeframe_end: Timestamp,
  active_time_seconds: Type.Integer(),
  compute_time_seconds: Type.Integer(),
  written_data_bytes: Type.Integer(),
  synthetic_storage_size_bytes: Type.Integer(),
  data_storage_bytes_hour: Type.Optional(Type.Integer()),
  logical_size_bytes: Type.Optional(Type.Integer()),
  logical_size_bytes_hour: Type.Optional(Type.Integer()),
});
const TimeframeV2 = Type.Object({
  timeframe_start: Timestamp,
  timeframe_end: Timestamp,
  metrics: Type.Array(Type.Object({ metric_name: Type.String(), value: Type.Integer() })),
});

const Period = {
  period_id: Type.String(),
  period_plan: Type.String(),
  period_start: Timestamp,
  period_end: Type.Optional(Timestamp),
};
const Periods = Type.Array(Type.Object({ ...Period, consumption: Type.Array(Timeframe) }));
const PeriodsV2 = Type.Array(Type.Object({ ...Period, consumption: Type.Array(TimeframeV2) }));
const pagination = Type.Optional(Type.Object({ cursor: Type.String() }));

export const ProjectsConsumption = Type.Object({
  projects: Type.Array(Type.Object({ project_id: Type.String(), periods: Periods })),
  pagination,
});
export const ProjectsConsumptionV2 = Type.Object({
  projects: Type.Array(Type.Object({ project_id: Type.String(), periods: PeriodsV2 })),
  pagination,
});
export const BranchesConsumption = Type.Object({
  branches: Type.Array(Type.Object({ project_id: Type.String(), branch_id: Type.String(), periods: PeriodsV2 })),
  pagination,
});
