import type pg from 'pg';
import { startStoreServer } from '../test/support/store.ts';
import { type Ask, askApi, openApi, type Round, runRound } from './api-load.ts';
import { measureScale } from './api-scale.ts';
import { absoluteFigure, type Figure } from './figure.ts';
import { type MeasureOptions, roundsOf } from './section.ts';

const ROUNDS = 7;
const ROUND_MS = 3000;
const QUICK_ROUND_MS = 1000;
const AT_ONCE = 50;
const PROJECTS = 100;

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
  const { app, close, headers, projects } = await openApi(store, { projects: PROJECTS });
  undo.defer(close);
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
      const result = await runRound(ask, { round_ms, at_once: AT_ONCE });
      if (round >= 0) measured.get(name)!.push(result);
    }
    options.tell(`${round + 1} of ${rounds} rounds`);
  }
  const figures = ['operation', 'endpoints'].flatMap((what) =>
    figuresOf(what, measured.get(what)!, measured.get(`${what} by SQL`)!),
  );
  return [...figures, ...(await measureScale(options))];
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

const askSql =
  (pool: pg.Pool, text: string, ids: readonly string[]): Ask =>
  async (index) => {
    const { rowCount } = await pool.query({ name: text.slice(0, 60), text, values: [ids[index % ids.length]] });
    if (rowCount !== 1) throw new Error(`a look-up returned ${rowCount} rows`);
  };
