import { join } from 'node:path';
import { PATH_ID_PATTERN } from '../../../domain/ids.ts';
import { LIMITS } from '../../../domain/limits.ts';

/** Postgres names its socket after its port; ours listen on no port, and all keep the default in the name. */
const SOCKET_PORT = 5432;
const ID = new RegExp(PATH_ID_PATTERN);

/** Where the parts of one compute are. Its data directory is the storage driver's and lies elsewhere. */
export interface ComputeLayout {
  readonly id: string;
  /** Ours, readable to the compute's group: configuration, log, record. */
  readonly directory: string;
  readonly record: string;
  readonly log: string;
  /** The password for its primary, where it has one. */
  readonly passfile: string;
  /** The compute's own, closed to everyone else. */
  readonly socket_directory: string;
  readonly socket: string;
}

export interface DriverDirectories {
  /** Survives a restart of the machine. */
  readonly stateDir: string;
  /** Short, since the path of a Unix socket is; may be empty after a restart of the machine. */
  readonly runDir: string;
}

/** Throws when the id cannot name a directory, or the socket's path would be longer than the system takes. */
export function computeLayout({ stateDir, runDir }: DriverDirectories, id: string): ComputeLayout {
  if (!ID.test(id))
    throw new Error(`${JSON.stringify(id)} cannot name a compute: lower-case letters, digits and hyphens`);
  const directory = join(stateDir, id);
  const socket_directory = join(runDir, id);
  const socket = join(socket_directory, `.s.PGSQL.${SOCKET_PORT}`);
  const bytes = Buffer.byteLength(socket);
  if (bytes > LIMITS.socket_path_bytes) {
    throw new Error(
      `the socket ${socket} has a path of ${bytes} bytes, and a Unix socket's is at most ${LIMITS.socket_path_bytes}: choose a run directory that is shorter by ${bytes - LIMITS.socket_path_bytes} bytes`,
    );
  }
  return {
    id,
    directory,
    record: join(directory, 'record.json'),
    log: join(directory, 'postgres.log'),
    passfile: join(directory, 'passfile'),
    socket_directory,
    socket,
  };
}

/**
 * What the server is started with. A setting given here wins over every file, `postgresql.auto.conf` in the data
 * directory included, so that the platform's own are the platform's at every start, whatever a volume brings along.
 */
export function serverArguments(
  layout: ComputeLayout,
  data_directory: string,
  standby?: { readonly primary: ComputeLayout; readonly user: string },
): string[] {
  const settings = {
    hba_file: join(layout.directory, 'pg_hba.conf'),
    ident_file: join(layout.directory, 'pg_ident.conf'),
    listen_addresses: '',
    port: SOCKET_PORT,
    unix_socket_directories: layout.socket_directory,
    logging_collector: 'off',
    log_destination: 'stderr',
    fsync: 'on',
    full_page_writes: 'on',
    wal_recycle: 'off',
    ...(standby ? { primary_conninfo: primaryConninfo(layout, standby) } : {}),
  };
  const assignments = Object.entries(settings).map(([name, value]) => `${name}=${value}`);
  return [
    ...['-D', data_directory],
    ...[configurationArgument(layout), ...assignments].flatMap((assignment) => ['-c', assignment]),
  ];
}

/** How a standby reaches its primary, whose socket only users of the same project reach. Holds no secret. */
function primaryConninfo(
  { id, passfile }: ComputeLayout,
  { primary, user }: { readonly primary: ComputeLayout; readonly user: string },
): string {
  const words = {
    host: primary.socket_directory,
    port: SOCKET_PORT,
    user,
    passfile,
    application_name: id,
    sslmode: 'disable',
    gssencmode: 'disable',
    connect_timeout: 5,
  };
  return Object.entries(words)
    .map(([name, value]) => `${name}='${String(value).replace(/[\\']/g, '\\$&')}'`)
    .join(' ');
}

/** By this argument a server is known to be a compute's. */
export function configurationArgument({ directory }: ComputeLayout): string {
  return `config_file=${join(directory, 'postgresql.conf')}`;
}

/** The id of the compute whose server has these arguments, if it is one of this state directory. */
export function idOfArguments(stateDir: string, argv: readonly string[]): string | undefined {
  const prefix = `config_file=${stateDir}/`;
  const argument = argv.find((text) => text.startsWith(prefix) && text.endsWith('/postgresql.conf'));
  const id = argument?.slice(prefix.length, -'/postgresql.conf'.length);
  return id !== undefined && ID.test(id) ? id : undefined;
}
