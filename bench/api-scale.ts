import { randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import type pg from 'pg';
import { readEventStream } from '../test/support/event-stream.ts';
import { startStoreServer } from '../test/support/store.ts';
import { askApi, openApi, type Round, runRound } from './api-load.ts';
import { absoluteFigure, type Figure } from './figure.ts';
import { type MeasureOptions, roundsOf } from './section.ts';

const ROUNDS = 7;
const ROUND_MS = 3000;
const QUICK_ROUND_MS = 1000;
const AT_ONCE = 50;
/** Between two changes that are followed, so that each is told by itself. */
const CHANGE_INTERVAL_MS = 10;
const CHANGES = 500;
const POSTS_A_ROUND = 50;

interface Size {
  readonly projects: number;
  /** Of one project, besides its own. */
  readonly branches: number;
  readonly operations_per_project: number;
}

const FULL: Size = { projects: 10_000, branches: 40_000, operations_per_project: 100 };
const QUICK: Size = { projects: 200, branches: 500, operations_per_project: 10 };

/** The API over a store with as much in it as a large installation has: reads, a search, a change, and how soon it is told. */
export async function measureScale(options: MeasureOptions): Promise<Figure[]> {
  const size = options.quick ? QUICK : FULL;
  const rounds = roundsOf(options, ROUNDS);
  const round_ms = options.quick ? QUICK_ROUND_MS : ROUND_MS;
  const server = await startStoreServer();
  await using undo = new AsyncDisposableStack();
  undo.defer(() => server.stop());
  const store = await server.createStore();
  const { app, close, headers, key } = await openApi(store, { projects: 1 });
  undo.defer(close);
  options.tell(`filling a store with ${size.projects} projects`);
  const projects = await fill(store.pool, size);
  const reads = askApi(app, headers, pathsOf(projects));
  const search = askApi(app, headers, [`/projects/${projects[0]}/branches?search=preview-1&limit=100`]);
  const seen: Record<'reads' | 'search', Round[]> = { reads: [], search: [] };
  const posts: number[] = [];
  for (let round = -1; round < rounds; round += 1) {
    options.signal.throwIfAborted();
    const read = await runRound(reads, { round_ms, at_once: AT_ONCE });
    const searched = await runRound(search, { round_ms, at_once: 1 });
    const posted = await postBranches(app, headers, projects, (round + 1) * POSTS_A_ROUND);
    if (round < 0) continue;
    seen.reads.push(read);
    seen.search.push(searched);
    posts.push(...posted);
    options.tell(`${round + 1} of ${rounds} rounds of a large store`);
  }
  const what = `API with ${size.projects} projects, GET project, branch, endpoint or operation, ${AT_ONCE} at once`;
  const events = await followChanges(app, key, store.pool, projects);
  return [
    absoluteFigure({ what: `${what}, p50`, unit: 'ms', ours: seen.reads.map(({ p50_ms }) => p50_ms), at_most: 4 }),
    absoluteFigure({ what: `${what}, p99`, unit: 'ms', ours: seen.reads.map(({ p99_ms }) => p99_ms), at_most: 20 }),
    absoluteFigure({ what, unit: 'req/s', ours: seen.reads.map(({ per_second }) => per_second), at_least: 2500 }),
    absoluteFigure({
      ...{ what: `list of 100 of ${size.branches} branches by search, p99`, unit: 'ms', at_most: 30 },
      ours: seen.search.map(({ p99_ms }) => p99_ms),
    }),
    absoluteFigure({ what: 'POST branch, until 201 is out, p50', unit: 'ms', ours: posts, at_most: 15 }),
    absoluteFigure({
      ...{ what: 'event delivered after its transaction, p99', unit: 'ms', ours: events, share: 0.99, at_most: 50 },
    }),
  ];
}

const projectId = (index: number): string => `bench-project-${index}`;
/** Every kind in turn, of projects that lie far apart. */
const pathsOf = (projects: readonly string[]): string[] =>
  projects.flatMap((_, at) => {
    const index = (at * 7919) % projects.length;
    const path = `/projects/${projects[index]}`;
    return [
      path,
      `${path}/branches/br-bench-${index}`,
      `${path}/endpoints/ep-bench-${index}`,
      `${path}/operations/${operationId(index)}`,
    ];
  });
const operationId = (index: number): string => `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`;

/** Multiplies the one project that is there, as rows: what is measured reads them and does not run them. */
async function fill(pool: pg.Pool, { projects, branches, operations_per_project }: Size): Promise<string[]> {
  const client = await pool.connect();
  const copy = (table: string, series: string, values: string) =>
    client.query(
      `insert into ${table} overriding system value
        select copied.*
        from (select one as first from ${table} one where one.id::text not like '%bench%' limit 1) there, ${series},
          lateral jsonb_populate_record(first, jsonb_build_object(${values})) copied`,
    );
  const each = `generate_series(0, ${projects - 1}) n`;
  const timeline = "md5('t' || n)::uuid";
  const finished = "'status', 'finished', 'finished_at', now()";
  try {
    // Neither triggers nor foreign keys for a million rows.
    await client.query(`set session_replication_role = 'replica'; set statement_timeout = 0`);
    await copy('projects', each, `'id', 'bench-project-' || n, 'name', 'project ' || n, 'uid', 1000000 + n`);
    await copy('timelines', each, `'id', ${timeline}, 'project_id', 'bench-project-' || n, 'ready_at', now()`);
    const branch = `'timeline_id', ${timeline}, 'annotations', '{}'::jsonb`;
    await copy('branches', each, `'id', 'br-bench-' || n, 'project_id', 'bench-project-' || n, ${branch}`);
    await copy(
      'endpoints',
      each,
      `'id', 'ep-bench-' || n, 'project_id', 'bench-project-' || n, 'branch_id', 'br-bench-' || n`,
    );
    await copy(
      'calls',
      each,
      `'id', md5('c' || n)::uuid, 'seq', 1000000 + n, 'project_id', 'bench-project-' || n, 'finished_at', now()`,
    );
    await copy(
      'operations',
      `${each}, generate_series(1, ${operations_per_project}) k`,
      `'id', case k when 1 then '00000000-0000-4000-8000-' || lpad(n::text, 12, '0') else gen_random_uuid()::text end,
       'call_id', md5('c' || n)::uuid, 'position', k, 'project_id', 'bench-project-' || n, 'branch_id', 'br-bench-' || n,
       'endpoint_id', 'ep-bench-' || n, 'timeline_id', ${timeline}, 'created_at', now() - k * interval '1 hour', ${finished}`,
    );
    const preview = `generate_series(${projects}, ${projects + branches - 1}) n`;
    await copy('timelines', preview, `'id', ${timeline}, 'project_id', 'bench-project-0', 'ready_at', now()`);
    await copy(
      'branches',
      preview,
      `'id', 'br-bench-' || n, 'project_id', 'bench-project-0', 'parent_id', 'br-bench-0', 'is_default', false,
       'name', 'preview-' || n, 'updated_at', now() - n * interval '1 second', ${branch}`,
    );
    await client.query('vacuum analyze');
    await client.query('reset all');
  } finally {
    client.release();
  }
  return Array.from({ length: projects }, (_, index) => projectId(index));
}

/** How long each of so many branches took to be accepted, one after another, each of another project. */
async function postBranches(
  app: FastifyInstance,
  headers: Record<string, string>,
  projects: readonly string[],
  from: number,
): Promise<number[]> {
  const took: number[] = [];
  for (let at = from; at < from + POSTS_A_ROUND; at += 1) {
    const url = `/api/v2/projects/${projects[(1 + at) % projects.length]}/branches`;
    const asked = performance.now();
    const { statusCode, body } = await app.inject({
      method: 'POST',
      url,
      headers,
      payload: { branch: { name: randomUUID() } },
    });
    if (statusCode !== 201) throw new Error(`the API answered ${statusCode}: ${body}`);
    took.push(performance.now() - asked);
  }
  return took;
}

/** From the end of a change's transaction until a client of the stream has its event. */
async function followChanges(
  app: FastifyInstance,
  key: string,
  pool: pg.Pool,
  projects: readonly string[],
): Promise<number[]> {
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const stream = await readEventStream(`http://127.0.0.1:${port}/api/v2/events`, { key });
  try {
    const late: number[] = [];
    for (let change = 0; change < CHANGES; change += 1) {
      const id = projects[change % projects.length];
      const coming = stream.until(({ type, data }) => type === 'project.updated' && data.subject_id === id);
      const arrived = coming.then(() => performance.now());
      await pool.query('update projects set name = $2 where id = $1', [id, randomUUID()]);
      const committed = performance.now();
      late.push(Math.max(0, (await arrived) - committed));
      await delay(CHANGE_INTERVAL_MS);
    }
    return late;
  } finally {
    await stream.close();
  }
}
