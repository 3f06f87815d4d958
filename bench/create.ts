import { mkdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { initCluster } from '../src/postgres/initdb.ts';
import { until } from '../test/support/until.ts';
import { bareFirstRow, inspectCompute, layConfiguration, makeBareDirectory } from './bare-server.ts';
import { absoluteFigure, type Figure } from './figure.ts';
import { firstRow } from './first-row.ts';
import { createProject, type Installation, projectOf, startInstallation, untilQuiet } from './installation.ts';
import { alternate, type MeasureOptions, roundsOf } from './section.ts';

const ROUNDS = 20;
const MAJOR = 17;

/** How long a new project takes from the POST to the first row, beside an initdb by hand and a start of what it made. */
export async function measure(options: MeasureOptions): Promise<Figure[]> {
  options.tell('starting');
  await using installation = await startInstallation(options, { pool_gib: 2 });
  await using bare = await makeBareDirectory();
  const { endpoint_id } = await createProject(installation);
  const { program, layout } = inspectCompute(installation, endpoint_id);

  /** Without durability, without roles and grants: the least that could be called a new server. */
  const initAndStart = async () => {
    const began = performance.now();
    const data_directory = join(installation.pool, 'bare');
    await mkdir(data_directory, { mode: 0o700 });
    try {
      const owner = await initCluster({ root: dirname(dirname(program)), major: MAJOR }, data_directory);
      const init_ms = performance.now() - began;
      const configured = await layConfiguration(layout, bare.path, owner);
      return (
        init_ms + (await bareFirstRow({ program, data_directory, owner, layout: configured, database: 'postgres' }))
      );
    } finally {
      await rm(data_directory, { recursive: true, force: true });
    }
  };
  const took = await alternate(
    options,
    { rounds: roundsOf(options, ROUNDS) },
    { ours: () => createAndDelete(installation), peer: initAndStart },
  );
  return [
    absoluteFigure({
      ...{ what: 'project create, POST to first row, p50', unit: 'ms', at_most: 700 },
      ...{ ...took, peer_is: 'bare initdb and start of the same Postgres, not made durable; for scale' },
    }),
  ];
}

async function createAndDelete(installation: Installation): Promise<number> {
  const { coppice } = installation;
  const began = performance.now();
  const project = projectOf(await coppice.must('POST', '/projects', { project: {} }));
  const posted_ms = performance.now() - began;
  const took_ms = posted_ms + (await firstRow(project));
  await untilQuiet(installation, project);
  await coppice.must('DELETE', `/projects/${project.id}`);
  await until(
    async () => {
      const { rows } = await coppice.ownDatabase(`select purged_at from coppice.projects where id = '${project.id}'`);
      return rows[0].purged_at !== null;
    },
    { what: `${project.id} to be deleted` },
  );
  return took_ms;
}
