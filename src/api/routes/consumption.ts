import { chooseOrganization } from '../../actions/access.ts';
import { CoppiceError } from '../../domain/errors.ts';
import { type OrganizationId, PATH_ID_PATTERN } from '../../domain/ids.ts';
import { type Granularity, timeframesBetween } from '../../domain/timeframes.ts';
import type { Store } from '../../store/connection.ts';
import {
  type Consumer,
  type Consumers,
  listConsumingBranches,
  listConsumingProjects,
  sumStorageByFrame,
  sumUsageByFrame,
} from '../../store/consumption.ts';
import { findOrganization } from '../../store/organizations.ts';
import { BRANCH_METRICS, type Consumed, METRICS_V1, PROJECT_METRICS } from '../consumption-metrics.ts';
import { reply, route } from '../route.ts';
import {
  BranchConsumptionQuery,
  BranchesConsumption,
  ConsumptionQuery,
  ConsumptionV2Query,
  ProjectsConsumption,
  ProjectsConsumptionV2,
} from '../schemas/consumption.ts';
import { type ConsumptionHistory, consumptionPeriods } from '../serializers/consumption.ts';

const PROJECTS_DEFAULT = 10;
const BRANCHES_DEFAULT = 100;
const IDS_MAX = 100;
const ID = new RegExp(PATH_ID_PATTERN);

/** A list that is repeated or joined by commas; undefined where nothing was sent. */
function parseList(sent: string | readonly string[] | undefined): string[] | undefined {
  if (sent === undefined) return undefined;
  return [sent]
    .flat()
    .flatMap((part) => part.split(','))
    .filter((item) => item !== '');
}

const invalid = (field: string, problem: string) => new CoppiceError('invalid_request', { field, problem });

/** Ids of a query; an empty list is none. */
function parseIds(field: string, sent: string | readonly string[] | undefined): string[] | undefined {
  const ids = parseList(sent);
  if (!ids || ids.length === 0) return undefined;
  if (ids.length > IDS_MAX) throw invalid(field, `has more than ${IDS_MAX} entries`);
  if (ids.some((id) => !ID.test(id))) throw invalid(field, 'has an entry that is no id');
  return ids;
}

/** Names of metrics in the order in which they were asked for. */
function parseMetrics<Name extends string>(
  sent: string | readonly string[] | undefined,
  known: Readonly<Record<Name, unknown>>,
): Name[] {
  const names = [...new Set(parseList(sent))];
  const unknown = names.find((name) => !Object.hasOwn(known, name));
  if (unknown === undefined) return names as Name[];
  throw invalid('metrics', `has an unknown entry; known are ${Object.keys(known).join(', ')}`);
}

function requireMetrics<Name extends string>(
  sent: string | readonly string[],
  known: Readonly<Record<Name, unknown>>,
): Name[] {
  const names = parseMetrics(sent, known);
  if (names.length === 0) throw invalid('metrics', `is empty; known are ${Object.keys(known).join(', ')}`);
  return names;
}

interface RangeQuery {
  readonly from: string;
  readonly to: string;
  readonly granularity: Granularity;
}

/** What is told of. Throws when it goes back too far. */
function readRange({ from, to, granularity }: RangeQuery) {
  const now = new Date();
  const frames = timeframesBetween(new Date(from), new Date(to), granularity, now);
  if (!frames) throw new CoppiceError('consumption_range', { granularity, from, to });
  return { granularity, frames, now, since: frames[0]?.start ?? now };
}

async function readHistory(
  store: Store,
  organization_id: OrganizationId,
  consumers: Consumers,
  { granularity, frames, now }: ReturnType<typeof readRange>,
): Promise<ConsumptionHistory> {
  const [used, stored, organization] = await Promise.all([
    sumUsageByFrame(store, consumers, frames, granularity),
    sumStorageByFrame(store, consumers, frames, now),
    findOrganization(store, organization_id),
  ]);
  return { frames, used, stored, now, plan: organization?.plan ?? '' };
}

const idsOf = (consumers: readonly Consumer[]): string[] => consumers.map(({ id }) => id);
const cursorAfter = (page: readonly Consumer[]) => {
  const last = page.at(-1);
  return last && { cursor: last.id };
};

/** Asked metrics by name and value. */
const shownV2 =
  <Name extends string>(names: readonly Name[], metrics: Readonly<Record<Name, (consumed: Consumed) => number>>) =>
  (consumed: Consumed) => ({
    metrics: names.map((metric_name) => ({ metric_name, value: metrics[metric_name](consumed) })),
  });

type MetricV1 = keyof typeof METRICS_V1;
const ALWAYS = [
  ...(['active_time_seconds', 'compute_time_seconds'] as const),
  ...(['written_data_bytes', 'synthetic_storage_size_bytes'] as const),
];

/** The four that are always told, and these. */
const shownV1 = (names: readonly MetricV1[]) => (consumed: Consumed) => {
  const values = [...ALWAYS, ...names].map((name) => [name, METRICS_V1[name](consumed)]);
  return Object.fromEntries(values) as Record<(typeof ALWAYS)[number], number> & Partial<Record<MetricV1, number>>;
};

export const consumptionRoutes = [
  route({
    method: 'GET',
    path: '/consumption_history/projects',
    permission: 'consumption.read',
    summary: 'Shows what projects used, hour by hour, day by day or month by month; wakes nothing',
    schema: { querystring: ConsumptionQuery, response: { 200: ProjectsConsumption } },
    handle: async ({ context: { store }, caller, query }) => {
      const organization_id = chooseOrganization(caller, query.org_id);
      const { limit = PROJECTS_DEFAULT, cursor, metrics, include_v1_metrics } = query;
      // Once the only way to ask for more.
      const names = parseMetrics(metrics ?? (include_v1_metrics ? 'data_storage_bytes_hour' : []), METRICS_V1);
      const ids = parseIds('project_ids', query.project_ids);
      const range = readRange(query);
      const page = await listConsumingProjects(store, organization_id, { ids, cursor, limit, since: range.since });
      const history = await readHistory(store, organization_id, { projects: idsOf(page) }, range);
      const periodsOf = consumptionPeriods(history, shownV1(names));
      const projects = page.map((project) => ({ project_id: project.id, periods: periodsOf(project) }));
      return reply(200, { projects, pagination: cursorAfter(page) });
    },
  }),
  route({
    method: 'GET',
    path: '/consumption_history/v2/projects',
    permission: 'consumption.read',
    summary: 'Shows what projects used by the metrics of usage-based plans; wakes nothing',
    schema: { querystring: ConsumptionV2Query, response: { 200: ProjectsConsumptionV2 } },
    handle: async ({ context: { store }, caller, query }) => {
      const organization_id = chooseOrganization(caller, query.org_id);
      const names = requireMetrics(query.metrics, PROJECT_METRICS);
      const ids = parseIds('project_ids', query.project_ids);
      const range = readRange(query);
      const { limit = PROJECTS_DEFAULT, cursor } = query;
      const page = await listConsumingProjects(store, organization_id, { ids, cursor, limit, since: range.since });
      const history = await readHistory(store, organization_id, { projects: idsOf(page) }, range);
      const periodsOf = consumptionPeriods(history, shownV2(names, PROJECT_METRICS));
      const projects = page.map((project) => ({ project_id: project.id, periods: periodsOf(project) }));
      return reply(200, { projects, pagination: cursorAfter(page) });
    },
  }),
  route({
    method: 'GET',
    path: '/consumption_history/v2/branches',
    permission: 'consumption.read',
    summary: 'Shows what branches of some projects used; wakes nothing',
    schema: { querystring: BranchConsumptionQuery, response: { 200: BranchesConsumption } },
    handle: async ({ context: { store }, caller, query }) => {
      const organization_id = chooseOrganization(caller, query.org_id);
      const names = requireMetrics(query.metrics, BRANCH_METRICS);
      const project_ids = parseIds('project_ids', query.project_ids);
      if (!project_ids) throw invalid('project_ids', 'is empty');
      const ids = parseIds('branch_ids', query.branch_ids);
      const range = readRange(query);
      const { limit = BRANCHES_DEFAULT, cursor } = query;
      const asked = { ids, cursor, limit, since: range.since };
      const page = await listConsumingBranches(store, organization_id, project_ids, asked);
      const history = await readHistory(store, organization_id, { branches: idsOf(page) }, range);
      const periodsOf = consumptionPeriods(history, shownV2(names, BRANCH_METRICS));
      const branches = page.map((branch) => {
        return { project_id: branch.project_id, branch_id: branch.id, periods: periodsOf(branch) };
      });
      return reply(200, { branches, pagination: cursorAfter(page) });
    },
  }),
];
