import { absoluteFigure, type Figure, ratioFigure } from './figure.ts';
import { firstRow, withClient } from './first-row.ts';
import {
  createProject,
  type Installation,
  type Project,
  putToSleep,
  startInstallation,
  untilQuiet,
} from './installation.ts';
import { alternate, type MeasureOptions, roundsOf } from './section.ts';

const ROUNDS = 15;
const MIB = 1024 ** 2;
const SMALL_BYTES = 40 * MIB;
const LARGE_BYTES = 5 * 1024 * MIB;
const QUICK_LARGE_BYTES = 400 * MIB;
const ROWS_PER_BATCH = 200_000;

/**
 * How long it takes from the POST of a branch of a sleeping parent to the first row on the child, from a small and from
 * a large parent in turn: copy-on-write makes the two cost the same.
 */
export async function measure(options: MeasureOptions): Promise<Figure[]> {
  const rounds = roundsOf(options, ROUNDS);
  const large_bytes = options.quick ? QUICK_LARGE_BYTES : LARGE_BYTES;
  // The parent's log is kept, and snapshots of it while it was filled.
  await using installation = await startInstallation(options, { pool_gib: options.quick ? 4 : 32 });
  const parentOf = async (bytes: number) => {
    options.tell(`filling a parent of ${sizeText(bytes)}`);
    const project = await createProject(installation);
    await fill(installation, project, bytes, options.signal);
    await putToSleep(installation, project);
    return project;
  };
  const small = await parentOf(SMALL_BYTES);
  const large = await parentOf(large_bytes);
  const took = await alternate(
    options,
    { rounds },
    { small: () => branchAndDelete(installation, small), large: () => branchAndDelete(installation, large) },
  );
  const what = (bytes: number) => `branch of a sleeping parent of ${sizeText(bytes)}, POST to first row, p50`;
  const unit = 'ms';
  return [
    absoluteFigure({ what: what(SMALL_BYTES), unit, ours: took.small, at_most: 500 }),
    absoluteFigure({ what: what(large_bytes), unit, ours: took.large, at_most: 500 }),
    ratioFigure({
      ...{ what: `branch of ${sizeText(large_bytes)}, p50`, unit, ours: took.large, peer: took.small, at_most: 1.5 },
      peer_is: `branch of ${sizeText(SMALL_BYTES)}, p50`,
    }),
  ];
}

const sizeText = (bytes: number): string => {
  const mib = Math.round(bytes / MIB);
  return mib >= 1024 ? `${Math.round(mib / 1024)} GB` : `${mib} MB`;
};

/** Fills the project's database through SQL until all of its databases have so many bytes. */
async function fill(
  { coppice }: Installation,
  { id, endpoint_id, connection_uri }: Project,
  bytes: number,
  signal: AbortSignal,
): Promise<void> {
  // With the CPU share that people get by default 5 GB would take an hour; the size is given back afterwards.
  const resize = async (cu: number) => {
    const endpoint = { autoscaling_limit_min_cu: cu, autoscaling_limit_max_cu: cu };
    await coppice.must('PATCH', `/projects/${id}/endpoints/${endpoint_id}`, { endpoint });
    await coppice.settled(id);
  };
  await resize(2);
  await withClient({ connection_uri }, async (client) => {
    await client.query('create table filler (number bigint primary key, padding text not null)');
    for (let next = 0; ; next += ROWS_PER_BATCH) {
      signal.throwIfAborted();
      const { rows } = await client.query('select sum(pg_database_size(oid))::float8 as size from pg_database');
      const missing = Math.ceil((bytes - rows[0].size) / 1200);
      if (missing <= 0) break;
      await client.query(
        `insert into filler select number, repeat(md5(random()::text), 31) from generate_series($1::bigint, $2) number`,
        [next, next + Math.min(ROWS_PER_BATCH, missing) - 1],
      );
    }
    await client.query('vacuum analyze filler');
  });
  await resize(0.25);
}

async function branchAndDelete(installation: Installation, parent: Project): Promise<number> {
  const { coppice } = installation;
  const began = performance.now();
  const created = await coppice.must('POST', `/projects/${parent.id}/branches`, {
    branch: {},
    endpoints: [{ type: 'read_write' }],
  });
  const posted_ms = performance.now() - began;
  const [{ connection_uri }] = created.connection_uris;
  const took_ms = posted_ms + (await firstRow({ connection_uri }, 'select 1 from filler limit 1'));
  await untilQuiet(installation, parent);
  await coppice.must('DELETE', `/projects/${parent.id}/branches/${created.branch.id}`);
  await untilQuiet(installation, parent);
  return took_ms;
}
