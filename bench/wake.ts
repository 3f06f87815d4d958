import { bareFirstRow, bareServerOf, makeBareDirectory } from './bare-server.ts';
import { type Figure, percentile, ratioFigure } from './figure.ts';
import { firstRow, type Way } from './first-row.ts';
import { createProject, putToSleep, startInstallation } from './installation.ts';
import { alternate, type MeasureOptions, roundsOf } from './section.ts';

const ROUNDS = 100;
const PEER = 'bare start of the same server on the same files, to its first row';

/**
 * How long a client waits for a compute that sleeps: from the TCP connect to the first row, SCRAM included, beside the
 * bare start of the very same server while the compute sleeps.
 */
export async function measure(options: MeasureOptions): Promise<Figure[]> {
  const rounds = roundsOf(options, ROUNDS, 7);
  options.tell('starting');
  await using installation = await startInstallation(options, { pool_gib: 2 });
  await using bare = await makeBareDirectory();
  const project = await createProject(installation);
  const peer = await bareServerOf(installation, project.endpoint_id, bare.path);
  const { connection_uri, host } = project;
  await putToSleep(installation, project);

  const wake = (way: Way) => async () => {
    const took_ms = await firstRow(way);
    await putToSleep(installation, project);
    return took_ms;
  };
  const took = await alternate(
    options,
    { rounds, warm_up: 3 },
    {
      plain: wake({ connection_uri }),
      tls: wake({ connection_uri, tls_host: host }),
      peer: () => bareFirstRow(peer),
    },
  );
  const peer_p99 = percentile(took.peer, 0.99).toFixed(1);
  const ratio = { unit: 'ms', peer: took.peer };
  return [
    ratioFigure({ ...ratio, what: 'wake, p50', ours: took.plain, peer_is: `${PEER}, p50`, at_most: 2.5 }),
    ratioFigure({
      ...{ ...ratio, what: 'wake, p99', ours: took.plain, share: 0.99, at_most: 5 },
      peer_is: `p50 of the bare start (its p99 is ${peer_p99} ms)`,
    }),
    ratioFigure({ ...ratio, what: 'wake over TLS, p50', ours: took.tls, peer_is: `${PEER}, p50`, at_most: 3 }),
    ratioFigure({
      ...{ ...ratio, what: 'wake over TLS, p99', ours: took.tls, share: 0.99 },
      peer_is: `p50 of the bare start (its p99 is ${peer_p99} ms)`,
    }),
  ];
}
