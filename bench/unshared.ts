import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { archiveOf, storageOf } from '../src/main/parts.ts';
import { until } from '../test/support/until.ts';
import { type BusyParent, keepHistory } from './busy-parent.ts';
import { absoluteFigure, type Figure } from './figure.ts';
import { withClient } from './first-row.ts';
import { type Installation, type Project, untilQuiet, usedBytes } from './installation.ts';
import type { MeasureOptions } from './section.ts';

const MB = 1024 ** 2;
const PAGE_BYTES = 8192;
const PIECE_BYTES = 4 * MB;
const ROWS_PER_SCALE = 100_000;
const AT_ONCE = 2;
const CU = 2;
/** Log and snapshots are removed by chores that come by once a minute. */
const PATIENCE_MS = 300_000;
const HISTORY_SECONDS = 86_400;
/** A branch may take up so much of what it changes, and so much besides. */
const SHARE_MAX = 1.5;
const FIXED_MB_MAX = 8;

/**
 * What many branches of one sleeping parent take up, after 1 % of the rows were changed on each and they went to sleep.
 * The rows are a range of the primary key. What was changed are the pages of 8 KB that then differ from the parent's.
 */
export async function measureUnshared(
  options: MeasureOptions,
  installation: Installation,
  parent: BusyParent,
  { count, scale }: { count: number; scale: number },
): Promise<Figure[]> {
  const { project } = parent;
  // The past of the parent is not what is weighed.
  await dropHistory(installation, project);
  await keepHistory(installation, project, HISTORY_SECONDS);
  const before = await settledBytes(installation);
  const branches: string[] = [];
  let begun = 0;
  const work = async () => {
    while (begun < count) {
      options.signal.throwIfAborted();
      begun += 1;
      branches.push(await branchAndChange(installation, parent, { number: begun - 1, scale }));
      if (branches.length % Math.ceil(count / 5) === 0) options.tell(`${branches.length} branches changed`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  const with_history = ((await settledBytes(installation)) - before) / MB / count;
  const changed = (await changedBytes(await volumeOf(installation, branches[0]!), parent.volume)) / MB;
  await dropHistory(installation, project);
  const alone = ((await settledBytes(installation)) - before) / MB / count;
  const what = `unshared disk of each of ${count} sleeping branches with 1 % of rows changed (${changed.toFixed(0)} MB of pages)`;
  return [
    absoluteFigure({
      ...{ what, unit: 'MB', ours: [alone], at_most: Math.round(SHARE_MAX * changed + FIXED_MB_MAX) },
      peer_is: 'the pages that changed, in the volume; goal is 1.5x of them plus 8 MB',
      peer: [changed],
    }),
    absoluteFigure({
      ...{ what: `${what}, with their history: log and snapshots`, unit: 'MB', ours: [with_history] },
      ...{ peer: [changed], peer_is: 'the pages that changed' },
    }),
  ];
}

/** Returns the branch's id. */
async function branchAndChange(
  { coppice, ...rest }: Installation,
  { project }: BusyParent,
  { number, scale }: { number: number; scale: number },
): Promise<string> {
  const { branch, endpoints, connection_uris } = await coppice.must('POST', `/projects/${project.id}/branches`, {
    branch: { parent_id: project.branch_id },
    endpoints: [{ type: 'read_write', autoscaling_limit_min_cu: CU, autoscaling_limit_max_cu: CU }],
  });
  const rows = (scale * ROWS_PER_SCALE) / 100;
  const from = (number % 100) * rows;
  await withClient(connection_uris[0], async (client) => {
    const text = 'update pgbench_accounts set abalance = abalance + 1 where aid > $1 and aid <= $2';
    const { rowCount } = await client.query(text, [from, from + rows]);
    if (rowCount !== rows) throw new Error(`${rowCount} rows were changed, not ${rows}`);
  });
  await coppice.must('POST', `/projects/${project.id}/endpoints/${endpoints[0].id}/suspend`);
  await untilQuiet({ coppice, ...rest }, project);
  return branch.id;
}

/** Keeps no history of the project any more, and waits until its log and its snapshots are gone. */
async function dropHistory(installation: Installation, project: Project): Promise<void> {
  await keepHistory(installation, project, 0);
  const archive = await archiveOf(installation.data_directory);
  const gone = async () => {
    const { rows } = await installation.coppice.ownDatabase(
      'select from coppice.timeline_snapshots where purged_at is null',
    );
    return rows.length === 0 && (await archive.timelines()).length === 0;
  };
  await until(gone, { what: 'history to be gone', timeout_ms: PATIENCE_MS, interval_ms: 1000 });
}

/** What the pool holds once it changes no more: what was deleted is given back a little later. */
async function settledBytes({ pool }: Installation): Promise<number> {
  let used = Number.NaN;
  const settled = async () => {
    const before = used;
    used = await usedBytes(pool);
    return Math.abs(used - before) < MB;
  };
  await until(settled, { what: 'the pool to come to rest', timeout_ms: PATIENCE_MS, interval_ms: 5000 });
  return used;
}

async function volumeOf({ coppice, data_directory }: Installation, branch_id: string): Promise<string> {
  const { driver } = await storageOf(data_directory, { storage: 'auto' });
  const { rows } = await coppice.ownDatabase(
    `select volume from coppice.timelines join coppice.branches on timelines.id = timeline_id
      where branches.id = '${branch_id}'`,
  );
  return driver.path(rows[0].volume);
}

/** Bytes of the pages of tables and indexes that one data directory has otherwise than another one. */
async function changedBytes(volume: string, original: string): Promise<number> {
  let changed = 0;
  for (const entry of await readdir(join(volume, 'base'), { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    changed += await differentBytes(path, path.replace(volume, original));
  }
  return changed;
}

async function differentBytes(path: string, other: string): Promise<number> {
  await using ours = await open(path);
  await using theirs = await open(other).catch(() => undefined);
  const [a, b] = [Buffer.alloc(PIECE_BYTES), Buffer.alloc(PIECE_BYTES)];
  let different = 0;
  for (let at = 0; ; at += PIECE_BYTES) {
    const { bytesRead } = await ours.read(a, 0, PIECE_BYTES, at);
    const there = (await theirs?.read(b, 0, PIECE_BYTES, at))?.bytesRead ?? 0;
    for (let page = 0; page < bytesRead; page += PAGE_BYTES) {
      const end = page + PAGE_BYTES;
      if (end > there || a.compare(b, page, end, page, end) !== 0) different += PAGE_BYTES;
    }
    if (bytesRead < PIECE_BYTES) return different;
  }
}
