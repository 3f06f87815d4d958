import { randomBytes } from 'node:crypto';
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import type pg from 'pg';
import { bootstrap } from '../src/actions/bootstrap.ts';
import type { ActionContext } from '../src/actions/context.ts';
import { createProject } from '../src/actions/create-project.ts';
import { createApi } from '../src/api/server.ts';
import { newApiKey, Vault } from '../src/domain/credentials.ts';
import { createChangeWatch } from '../src/store/change-watch.ts';
import type { Log } from '../src/watch/log-fields.ts';
import { createLogger } from '../src/watch/logger.ts';
import { startStoreServer, type TestStore } from '../test/support/store.ts';
import { absoluteFigure, type Figure, percentile } from './figure.ts';
import { type MeasureOptions, roundsOf } from './section.ts';

const ROUNDS = 7;
const ROUND_MS = 3000;
const QUICK_ROUND_MS = 1000;
const AT_ONCE = 50;
const PROJECTS = 100;

interface Round {
  readonly p50_ms: number;
  readonly p99_ms: number;
  readonly per_second: number;
}

/** One thing that is asked for again and again, by its number in the list of projects. */
type Ask = (index: number) => Promise<void>;

/**
 * The two reads that clients poll with, through the whole API in this process, 50 of them under way at any moment; and
 * for scale the statement at the bottom of each, sent by `pg` itself over as many connections as the API has.
 */
export async function measure(options: MeasureOptions): Promise<Figure[]> {
  const rounds = roundsOf(options, ROUNDS);
  const round_ms = options.quick ? QUICK_ROUND_MS : ROUND_MS;
  const server = await startStoreServer();
  await using undo = new AsyncDisposableStack();
  undo.defer(() => server.stop());
  const store = await server.createStore();
  const { app, headers, projects } = await fillApi(store);
  undo.defer(() => app.close());
  const contestants = {
    operation: askApi(
      app,
      headers,
      projects.map(({ id, operation }) => `/projects/${id}/operations/${operation}`),
    ),
    'operation by SQL': askSql(
      store.pool,
      OPERATION_SQL,
      projects.map(({ operation }) => operation),
    ),
    endpoints: askApi(
      app,
      headers,
      projects.map(({ id }) => `/projects/${id}/endpoints`),
    ),
    'endpoints by SQL': askSql(
      store.pool,
      ENDPOINTS_SQL,
      projects.map(({ id }) => id),
    ),
  };
  const measured = new Map<string, Round[]>(Object.keys(contestants).map((name) => [name, []]));
  for (let round = -1; round < rounds; round += 1) {
    for (const [name, ask] of Object.entries(contestants)) {
      options.signal.throwIfAborted();
      const result = await runRound(ask, round_ms);
      if (round >= 0) measured.get(name)!.push(result);
    }
    options.tell(`${round + 1} of ${rounds} rounds`);
  }
  return ['operation', 'endpoints'].flatMap((what) =>
    figuresOf(what, measured.get(what)!, measured.get(`${what} by SQL`)!),
  );
}

function figuresOf(what: string, ours: readonly Round[], peer: readonly Round[]): Figure[] {
  const peer_is = 'the SQL look-up alone, by pg at the same concurrency; for scale';
  const sides = (field: keyof Round) => ({
    ours: ours.map((round) => round[field]),
    peer: peer.map((round) => round[field]),
    peer_is,
  });
  const name = `API, GET ${what}, ${AT_ONCE} at once`;
  return [
    absoluteFigure({ what: `${name}, p50`, unit: 'ms', ...sides('p50_ms'), at_most: 5 }),
    absoluteFigure({ what: `${name}, p99`, unit: 'ms', ...sides('p99_ms') }),
    absoluteFigure({ what: name, unit: 'req/s', ...sides('per_second'), at_least: 2000 }),
  ];
}

const OPERATION_SQL = 'select * from operations where id = $1';
const ENDPOINTS_SQL = `select endpoints.*, branches.timeline_id, last.action, last.id as last_id
  from endpoints join branches on branches.id = endpoints.branch_id
  left join lateral (
    select id, action from operations where endpoint_id = endpoints.id
      and status in ('scheduling', 'running', 'cancelling') and action in ('start_compute', 'suspend_compute')
    order by created_at desc limit 1
  ) last on true
  where endpoints.project_id = $1 and endpoints.deleted_at is null order by endpoints.created_at, endpoints.id`;

/** The API over a store with projects in it, made as callers make them. */
async function fillApi(store: TestStore) {
  const key = newApiKey();
  const { user_id } = await bootstrap(store.store, { email: 'owner@example.test', api_key: key });
  const context: ActionContext = {
    store: store.store,
    vault: new Vault(randomBytes(32)),
    installation: {
      ...{ region_id: 'local', domain: 'localhost', pg_port: 5432, domain_resolves: true },
      ...{
        object_storage: false,
        time_travel_timeout_seconds: 30,
        min_suspend_timeout_seconds: 60,
        default_pg_version: 17,
        distributions: new Map([[17, 'npm-17']]),
      },
    },
    history: { resolve: () => Promise.reject(new Error('reads do not look into the past')) },
  };
  const { rows } = await store.pool.query<{ id: `org-${string}` }>('select id from organizations');
  const caller = {
    ...{ kind: 'personal' as const, key_id: 0, user: { id: user_id, email: 'owner@example.test', name: '' } },
    read_only: false,
    memberships: new Map([[rows[0]!.id, 'admin' as const]]),
  };
  const projects: { id: string; operation: string }[] = [];
  for (let made = 0; made < PROJECTS; made += 1) {
    const { project, operations } = await createProject(context, caller, {});
    projects.push({ id: project.id, operation: operations[0]!.id });
  }
  await store.pool.query('analyze');
  const logger = createLogger({ level: 'info', stream: { write: () => undefined } }) as Log & FastifyBaseLogger;
  const app = await createApi({ context, changes: createChangeWatch(), ready: () => true, logger });
  return { app, headers: { authorization: `Bearer ${key}` }, projects };
}

const askApi =
  (app: FastifyInstance, headers: Record<string, string>, paths: readonly string[]): Ask =>
  async (index) => {
    const { statusCode, body } = await app.inject({ url: `/api/v2${paths[index % paths.length]}`, headers });
    if (statusCode !== 200) throw new Error(`the API answered ${statusCode}: ${body}`);
  };

const askSql =
  (pool: pg.Pool, text: string, ids: readonly string[]): Ask =>
  async (index) => {
    const { rowCount } = await pool.query({ name: text.slice(0, 60), text, values: [ids[index % ids.length]] });
    if (rowCount !== 1) throw new Error(`a look-up returned ${rowCount} rows`);
  };

/** Each of the askers sends its next question when its last one is answered. */
async function runRound(ask: Ask, round_ms: number): Promise<Round> {
  const latencies: number[] = [];
  const began = performance.now();
  const asker = async (first: number) => {
    for (let next = first; ; next += 7) {
      const asked = performance.now();
      await ask(next);
      const answered = performance.now();
      latencies.push(answered - asked);
      if (answered - began >= round_ms) return;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, (_, first) => asker(first)));
  return {
    p50_ms: percentile(latencies, 0.5),
    p99_ms: percentile(latencies, 0.99),
    per_second: (latencies.length * 1000) / (performance.now() - began),
  };
}
