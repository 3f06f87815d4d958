import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Between, clientEnvironment, type Login, throughGateway, throughPgBouncer } from './between.ts';
import { openSocket } from './busy-parent.ts';
import { type Figure, ratioFigure } from './figure.ts';
import { startInstallation } from './installation.ts';
import { createLargeProject } from './large-project.ts';
import { startPgBouncer } from './pgbouncer.ts';
import { alternate, type MeasureOptions, roundsOf } from './section.ts';

const run = promisify(execFile);
const ROUNDS = 7;
const MB = 1024 ** 2;
/** Rows of a kilobyte, so that the server, which reads and writes them, is not all that is measured. */
const ROWS = 200_000;
const ROW_BYTES = 1000;
/** One after the other in one session, so that its beginning hardly counts. */
const COPIES = 4;
const QUICK_COPIES = 1;
const TABLES = [
  `create unlogged table original as select repeat('x', ${ROW_BYTES}) as filler from generate_series(1, ${ROWS})`,
  'create unlogged table copied (like original)',
];

/** Bulk COPY in both directions through a direct connection, beside PgBouncer in session mode: psql, a file, plain text. */
export async function* measure(options: MeasureOptions): AsyncGenerator<Figure> {
  const rounds = roundsOf(options, ROUNDS, 2);
  const copies = options.quick ? QUICK_COPIES : COPIES;
  await using installation = await startInstallation(options, { pool_gib: 6 });
  const { project, login, target } = await createLargeProject(installation);
  await using bouncer = await startPgBouncer(target);
  await using file = await makeFile();
  const gateway = throughGateway(installation, project, { pooled: false });
  const peer = throughPgBouncer(bouncer);
  for (const sql of TABLES) await psql(gateway, login, ['-c', sql]);
  await psql(gateway, login, ['-c', 'copy original to stdout', '-o', file.path]);
  const megabytes = ((await stat(file.path)).size * copies) / MB;
  const repeated = (words: readonly string[]) => Array.from({ length: copies }, () => words).flat();
  const ways = [
    { name: 'out', words: repeated(['-c', 'copy original to stdout']) },
    { name: 'in', words: repeated(['-c', `\\copy copied from '${file.path}'`]) },
  ];
  for (const { name, words } of ways) {
    const what = `COPY ${name}, ${megabytes.toFixed(0)} MB, plain text`;
    options.tell(what);
    const once = (between: Between) => async () => {
      await empty(target.socket_directory);
      const began = performance.now();
      await psql(between, login, [...words, '-o', '/dev/null']);
      return (megabytes * 1000) / (performance.now() - began);
    };
    const rates = await alternate(options, { rounds }, { ours: once(gateway), peer: once(peer) });
    yield ratioFigure({
      ...{ what, unit: 'MB/s', ours: rates.ours, peer: rates.peer },
      ...{ peer_is: `${bouncer.version}, session mode`, at_least: 0.95 },
    });
  }
}

const psql = (between: Between, login: Login, words: readonly string[]) =>
  run(
    'psql',
    ['-X', '-q', '-v', 'ON_ERROR_STOP=1', ...words, '-h', '127.0.0.1', '-p', String(between.port)].concat(
      ...['-U', login.user, login.database],
    ),
    { env: clientEnvironment(between, login, 'disable') },
  );

/** What is copied in goes into an empty table each time; that it becomes empty is not measured. */
async function empty(socket_directory: string): Promise<void> {
  const client = await openSocket(socket_directory);
  await client.query('truncate copied').finally(() => client.end());
}

async function makeFile(): Promise<AsyncDisposable & { readonly path: string }> {
  const directory = await mkdtemp(join(tmpdir(), 'copy-'));
  await chmod(directory, 0o700);
  return {
    path: join(directory, 'rows'),
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }),
  };
}
