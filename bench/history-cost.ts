import { appendFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { storageOf } from '../src/main/parts.ts';
import { type BareServer, inspectCompute, layConfiguration, makeBareDirectory, withBareServer } from './bare-server.ts';
import { type BusyParent, openSocket } from './busy-parent.ts';
import { absoluteFigure, type Figure, ratioFigure } from './figure.ts';
import { type Installation, untilQuiet } from './installation.ts';
import { measureThroughput, type Throughput } from './pgbench.ts';
import type { MeasureOptions } from './section.ts';

const CU = 2;
const PEER = 'the same server without Coppice, archive_mode=off';

/** One thing that is measured on both servers in turn. */
interface Load {
  readonly name: string;
  readonly rate?: number;
  readonly seconds: number;
  readonly ours: Throughput[];
  readonly peer: Throughput[];
}

/**
 * What history costs a server: two branches of one sleeping parent, the one with its log archived and snapshots taken of
 * it as for everybody, the other one run by hand without.
 */
export async function measureCost(
  options: MeasureOptions,
  installation: Installation,
  parent: BusyParent,
  { rounds, seconds, tps }: { rounds: number; seconds: number; tps: number },
): Promise<Figure[]> {
  const { coppice } = installation;
  const { project } = parent;
  await using undo = new AsyncDisposableStack();
  const branch = async (endpoints?: object[]) => {
    const created = await coppice.must('POST', `/projects/${project.id}/branches`, {
      ...{ branch: { parent_id: project.branch_id }, endpoints },
    });
    undo.defer(async () => {
      await coppice.must('DELETE', `/projects/${project.id}/branches/${created.branch.id}`);
      await untilQuiet(installation, project);
    });
    await untilQuiet(installation, project);
    return created;
  };
  const size = { autoscaling_limit_min_cu: CU, autoscaling_limit_max_cu: CU };
  const ours = await branch([{ type: 'read_write', suspend_timeout_seconds: -1, ...size }]);
  const peer = await branch();
  const endpoint_id = ours.endpoints[0].id;
  const bare = await makeBareDirectory();
  undo.use(bare);
  const server = await bareServerOn(installation, { endpoint_id, branch_id: peer.branch.id, directory: bare.path });
  const loads: Load[] = [
    { name: `at a steady ${tps} tps`, rate: tps, seconds: seconds / 2, ours: [], peer: [] },
    { name: 'as fast as it goes', seconds, ours: [], peer: [] },
  ];
  const socket = inspectCompute(installation, endpoint_id).layout.socket_directory;
  await withBareServer(server, async () => {
    for (let round = -1; round < rounds; round += 1) {
      for (const load of loads) {
        const turns = [
          { socket_directory: socket, into: load.ours },
          { socket_directory: server.layout.socket_directory, into: load.peer },
        ];
        for (const { socket_directory, into } of round % 2 === 0 ? turns : turns.reverse()) {
          options.signal.throwIfAborted();
          await checkpoint(socket_directory);
          const measured = await measureThroughput(socket_directory, load);
          if (round >= 0) into.push(measured);
        }
      }
      options.tell(`cost of history: ${round + 1} of ${rounds} rounds`);
    }
  });
  return loads.flatMap(figuresOf);
}

function figuresOf({ name, rate, ours, peer }: Load): Figure[] {
  const what = `pgbench with history on, ${name}`;
  const sides = (field: keyof Throughput) => ({
    ours: ours.map((round) => round[field]),
    peer: peer.map((round) => round[field]),
    peer_is: PEER,
  });
  return [
    ratioFigure({ what, unit: 'tps', ...sides('tps'), ...(rate !== undefined && { at_least: 0.95 }) }),
    absoluteFigure({
      ...{ what: `${what}: processor time of everything on the machine`, unit: 'ms / 1000 transactions' },
      ...sides('cpu_ms_per_1000'),
    }),
  ];
}

/** A server as the endpoint's, by hand, on the volume of a branch that has no endpoint. */
async function bareServerOn(
  installation: Installation,
  { endpoint_id, branch_id, directory }: { endpoint_id: string; branch_id: string; directory: string },
): Promise<BareServer> {
  const { coppice, data_directory } = installation;
  const { layout: original, record, program } = inspectCompute(installation, endpoint_id);
  const { driver } = await storageOf(data_directory, { storage: 'auto' });
  const { rows } = await coppice.ownDatabase(
    `select volume from coppice.timelines join coppice.branches on timelines.id = timeline_id
      where branches.id = '${branch_id}'`,
  );
  const layout = await layConfiguration(original, directory, record.owner);
  await appendFile(join(dirname(layout.log), 'postgresql.conf'), "archive_mode = 'off'\n");
  const { owner } = record;
  return { program, data_directory: driver.path(rows[0].volume), owner, layout, database: 'neondb' };
}

/** So that nobody writes out what another one's round has left. */
async function checkpoint(socket_directory: string): Promise<void> {
  const client = await openSocket(socket_directory);
  try {
    await client.query('checkpoint');
  } finally {
    await client.end();
  }
}
