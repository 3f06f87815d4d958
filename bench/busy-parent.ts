import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { until } from '../test/support/until.ts';
import { inspectCompute } from './bare-server.ts';
import { firstRow, withClient } from './first-row.ts';
import { createProject, type Installation, type Project, untilQuiet } from './installation.ts';
import { fillPgbench } from './pgbench.ts';

/** It begins with a checkpoint of everything that was filled in. */
const SNAPSHOT_TIMEOUT_MS = 300_000;
const BEAT_INTERVAL_MS = 100;
/** A commit this much older than the point may be the last one before it. */
const BEAT_TOLERANCE_MS = 3000;
/** On two cores the server, pgbench and Coppice have to share anyway. */
const PARENT_CU = 2;

/** A project that is large and written to all the time. Its root branch is the parent of what is measured. */
export interface BusyParent {
  readonly project: Project;
  readonly socket_directory: string;
  readonly timeline_id: string;
  /** The data directory. */
  readonly volume: string;
  readonly owner: { readonly uid: number; readonly gid: number } | undefined;
}

export interface BranchTime {
  /** From the request to the first row. */
  readonly took_ms: number;
  /** When the request was sent, in milliseconds since 1970. */
  readonly asked_at: number;
}

/** Makes the project and fills it, without a history of that. `history_seconds` is its window afterwards. */
export async function makeBusyParent(
  installation: Installation,
  { scale, history_seconds }: { scale: number; history_seconds: number },
): Promise<BusyParent> {
  const { coppice } = installation;
  const project = await createProject(installation, { history_retention_seconds: 0 });
  const endpoint = {
    autoscaling_limit_min_cu: PARENT_CU,
    autoscaling_limit_max_cu: PARENT_CU,
    // The load is the platform's own role, which keeps no compute awake.
    suspend_timeout_seconds: -1,
  };
  await coppice.must('PATCH', `/projects/${project.id}/endpoints/${project.endpoint_id}`, { endpoint });
  await coppice.settled(project.id);
  await fillPgbench(project.connection_uri, scale);
  await withClient(project, async (client) => {
    await client.query('create table beats (number bigserial primary key, at timestamptz not null)');
    await client.query('insert into beats (at) values (clock_timestamp())');
  });
  await keepHistory(installation, project, history_seconds);
  const { rows } = await coppice.ownDatabase(
    `select timeline_id from coppice.branches where id = '${project.branch_id}'`,
  );
  const { timeline_id } = rows[0];
  await untilHistoryBegins(installation, timeline_id);
  const { layout, record } = inspectCompute(installation, project.endpoint_id);
  return {
    project,
    socket_directory: layout.socket_directory,
    timeline_id,
    volume: record.data_directory,
    owner: record.owner,
  };
}

/** Nothing can be asked for before the first snapshot. */
async function untilHistoryBegins({ coppice }: Installation, timeline_id: string): Promise<void> {
  const begun = async () => {
    const { rows } = await coppice.ownDatabase(
      `select from coppice.timeline_snapshots where timeline_id = '${timeline_id}' and taken_at is not null`,
    );
    return rows.length > 0;
  };
  await until(begun, { what: 'the first snapshot', timeout_ms: SNAPSHOT_TIMEOUT_MS, interval_ms: 500 });
}

/** Changes how long the project's history is. */
export async function keepHistory(installation: Installation, project: Project, seconds: number): Promise<void> {
  const settings = { history_retention_seconds: seconds };
  await installation.coppice.must('PATCH', `/projects/${project.id}`, { project: settings });
  await untilQuiet(installation, project);
}

/** A session of the platform's role on a server's own socket. */
export async function openSocket(socket_directory: string): Promise<pg.Client> {
  const client = new pg.Client({ host: socket_directory, port: 5432, user: 'cloud_admin', database: 'neondb' });
  // Whoever asks hears of it; a server that is stopped while things are cleaned up after an error ends nobody.
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/** Commits the time into `beats` again and again, so that a branch can be asked which moment it is of. */
export async function startBeats({ socket_directory }: BusyParent): Promise<AsyncDisposable> {
  const client = await openSocket(socket_directory);
  const stopping = new AbortController();
  const beat = async () => {
    while (!stopping.signal.aborted) {
      await client.query('insert into beats (at) values (clock_timestamp())');
      await delay(BEAT_INTERVAL_MS, undefined, { signal: stopping.signal }).catch(() => undefined);
    }
  };
  const beating = beat();
  beating.catch(() => undefined);
  return {
    [Symbol.asyncDispose]: async () => {
      stopping.abort();
      await beating.finally(() => client.end());
    },
  };
}

/** Throws unless what is behind the URI is of that moment: a fast answer that is wrong is none. */
export async function assertMoment(connection_uri: string, moment: Date): Promise<void> {
  await withClient({ connection_uri }, async (client) => {
    const { rows } = await client.query('select at from beats order by number desc limit 1');
    const behind_ms = moment.getTime() - rows[0].at.getTime();
    if (behind_ms >= 0 && behind_ms <= BEAT_TOLERANCE_MS) return;
    throw new Error(`asked for ${moment.toISOString()}, got ${rows[0].at.toISOString()}`);
  });
}

/** Makes a branch of the parent's head, or of a moment of its past, waits for its first row, and deletes it again. */
export async function timeBranch(
  installation: Installation,
  { project }: BusyParent,
  moment?: Date,
): Promise<BranchTime> {
  const { coppice } = installation;
  const asked_at = Date.now();
  const began = performance.now();
  const { branch, connection_uris } = await coppice.must('POST', `/projects/${project.id}/branches`, {
    branch: { parent_id: project.branch_id, ...(moment && { parent_timestamp: moment.toISOString() }) },
    endpoints: [{ type: 'read_write' }],
  });
  const posted_ms = performance.now() - began;
  const [{ connection_uri }] = connection_uris;
  const took_ms = posted_ms + (await firstRow({ connection_uri }, 'select 1 from pgbench_branches limit 1'));
  if (moment) await assertMoment(connection_uri, moment);
  await untilQuiet(installation, project);
  await coppice.must('DELETE', `/projects/${project.id}/branches/${branch.id}`);
  await untilQuiet(installation, project);
  return { took_ms, asked_at };
}
