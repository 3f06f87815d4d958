import { type Command, InvalidArgumentError, Option } from 'commander';

/** What is known of where volumes lie. */
export interface PoolReport {
  readonly path: string;
  /** Undefined where volumes lie on the machine's own filesystem. */
  readonly pool?: { readonly image: string; readonly size_bytes: number; readonly mounted: boolean };
  /** Undefined where nothing was stored yet, or the pool is not mounted. */
  readonly state?: {
    readonly driver: string;
    /** Better drivers, and why they do not work here. */
    readonly passed_over: readonly { readonly name: string; readonly problem: string }[];
    readonly total_bytes: number;
    readonly free_bytes: number;
    readonly reserve_bytes: number;
    readonly volumes: number;
  };
}

interface PoolToCreate {
  readonly size_bytes: number;
  readonly filesystem: 'xfs' | 'btrfs';
  readonly image?: string;
}

/** What the commands need, handed in by main. */
export interface PoolContext {
  /** Called when a command runs, so that it sees what the environment and global options say by then. */
  dataDirectory(): string;
  /** Makes and mounts the pool; returns where. */
  createPool(options: PoolToCreate & { data_directory: string }): Promise<string>;
  /** Throws while something in the pool is in use. */
  unmountPool(data_directory: string): Promise<void>;
  report(data_directory: string): Promise<PoolReport>;
  print(text: string): void;
}

const UNITS: Readonly<Record<string, number>> = { '': 1, K: 1024, M: 1024 ** 2, G: 1024 ** 3, T: 1024 ** 4 };

/** `20G`, `1.5T`, `500M` or plain bytes, in powers of 1024. Throws InvalidArgumentError. */
function parseSize(text: string): number {
  const match = /^(\d+(?:\.\d+)?)([KMGT]?)(?:i?B)?$/i.exec(text);
  const bytes = match ? Math.floor(Number(match[1]) * UNITS[match[2]!.toUpperCase()]!) : Number.NaN;
  if (!Number.isSafeInteger(bytes) || bytes <= 0) {
    throw new InvalidArgumentError(`"${text}" is not a size; write it like 500M, 20G or 1T`);
  }
  return bytes;
}

/** Adds `pool create`, `pool status` and `pool unmount`. */
export function registerPool(program: Command, context: PoolContext): void {
  const pool = program.command('pool').description('where volumes lie, and a filesystem for instant branches');
  pool
    .command('create')
    .description('make a filesystem in a file and mount it, for machines whose own filesystem cannot share blocks')
    .requiredOption('--size <size>', 'space it takes from the disk at once: 500M, 20G, 1T', parseSize)
    .addOption(
      new Option('--filesystem <name>', 'btrfs for databases that are large and written to all day, else xfs')
        .choices(['xfs', 'btrfs'])
        .default('xfs'),
    )
    .option('--path <file>', 'file that holds it (default: pool/pool.xfs or pool/pool.btrfs in the data directory)')
    .action(({ size, path, filesystem }: { size: number; path?: string } & Pick<PoolToCreate, 'filesystem'>) =>
      createPool(context, { size_bytes: size, filesystem, image: path }),
    );
  pool
    .command('status')
    .description('show the storage driver, its directory and its space')
    .action(() => showPool(context));
  pool
    .command('unmount')
    .description('take the pool out of use, to move or copy its file; the next coppice up mounts it again')
    .action(() => context.unmountPool(context.dataDirectory()));
}

async function createPool({ dataDirectory, createPool, print }: PoolContext, wanted: PoolToCreate) {
  const mount = await createPool({ data_directory: dataDirectory(), ...wanted });
  print(`The pool of ${formatBytes(wanted.size_bytes)} is mounted at ${mount}; coppice up mounts it from now on.\n`);
}

async function showPool({ dataDirectory, report, print }: PoolContext): Promise<void> {
  print(formatReport(await report(dataDirectory())));
}

/** The report as lines of name and value. */
function formatReport({ path, pool, state }: PoolReport): string {
  const rows: [string, string][] = [['path', path]];
  if (pool)
    rows.push(['pool', `${pool.image} (${formatBytes(pool.size_bytes)}${pool.mounted ? '' : ', not mounted'})`]);
  if (state) {
    rows.unshift(['driver', state.driver]);
    rows.push(
      ['total', formatBytes(state.total_bytes)],
      ['free', formatBytes(state.free_bytes)],
      ['reserve', formatBytes(state.reserve_bytes)],
      ['volumes', String(state.volumes)],
      ...state.passed_over.map(({ name, problem }): [string, string] => [`not ${name}`, problem]),
    );
  } else if (!pool) {
    rows.push(['volumes', 'none yet']);
  }
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, value]) => `${name.padEnd(width)}  ${value}\n`).join('');
}

function formatBytes(bytes: number): string {
  const [unit, factor] = Object.entries(UNITS).findLast(([, factor]) => bytes >= factor) ?? ['', 1];
  return unit === '' ? `${bytes} bytes` : `${Number((bytes / factor).toFixed(1))} ${unit}iB`;
}
