import { isAbsolute, join } from 'node:path';
import { LIMITS } from './limits.ts';

/**
 * The one table of settings. Each is an environment variable and a flag of `coppice up`, and a line of
 * docs/settings.md, which is written from here. `readSettings` turns what was given into values.
 */

/** What `readSettings` looks at besides the flags. */
export interface SettingsMachine {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** undefined where the system has no user ids. */
  readonly uid: number | undefined;
  /** Relative paths are taken from here. */
  readonly cwd: string;
}

export type SettingType =
  | 'address_list'
  | 'api_key'
  | 'boolean'
  | 'choice'
  | 'choice_list'
  | 'count'
  | 'domain'
  | 'domain_list'
  | 'email'
  | 'network_list'
  | 'object_place'
  | 'origin_list'
  | 'path'
  | 'path_list'
  | 'port'
  | 'postgres_url'
  | 'region'
  | 'seconds'
  | 'size'
  | 'smtp_url'
  | 'text'
  | 'web_address';

/** A default that depends on the machine or on a setting above it; undefined when none can be told. */
type ComputedDefault = (machine: SettingsMachine, above: Readonly<Record<string, unknown>>) => string | undefined;

export interface Setting {
  readonly type: SettingType;
  /** One or two sentences for people; Markdown code spans are allowed. */
  readonly description: string;
  /** Given as a person would write it. Without one the setting may be left out. */
  readonly default?: string | ComputedDefault;
  /** How the documentation shows a computed or a missing default. */
  readonly default_text?: string;
  /** Of `choice` and `choice_list`. */
  readonly allowed?: readonly string[];
  /** Of `count`, and of `seconds` where more than a week is allowed. */
  readonly allowed_max?: number;
  /** Of `seconds` and `count`, where 1 is not the least. */
  readonly allowed_min?: number;
  /** The value never reaches a log, a message or an error. */
  readonly secret?: true;
}

function defaultDataDirectory({ env, uid }: SettingsMachine): string | undefined {
  if (uid === 0) return '/var/lib/coppice';
  // The XDG base directory specification: a relative value is to be ignored.
  if (env.XDG_DATA_HOME && isAbsolute(env.XDG_DATA_HOME)) return join(env.XDG_DATA_HOME, 'coppice');
  return env.HOME ? join(env.HOME, '.local', 'share', 'coppice') : undefined;
}

export const SETTINGS = {
  data_dir: {
    type: 'path',
    default: defaultDataDirectory,
    default_text: '`/var/lib/coppice` as root, else `coppice` in `$XDG_DATA_HOME` or `~/.local/share`',
    description: 'Everything that Coppice keeps: volumes, its own database, keys and logs.',
  },
  api_port: {
    type: 'port',
    default: '7432',
    description:
      'HTTP and HTTPS: the management API under `/api/v2`, SQL at `/sql` and in WebSockets, `/healthz`, `/readyz` and `/metrics`. 0 picks a free port.',
  },
  pg_port: {
    type: 'port',
    default: '5432',
    description: 'Postgres clients connect here. 0 picks a free port.',
  },
  listen: {
    type: 'address_list',
    default: '127.0.0.1,::1',
    description:
      'IP addresses that both ports listen on. The default serves this machine alone; `0.0.0.0,::` serves every network the machine is in.',
  },
  domain: {
    type: 'domain',
    default: 'localhost',
    description: 'Endpoints are named `<endpoint>.<domain>`. DNS must answer for `*.<domain>` with this machine.',
  },
  public_url: {
    type: 'web_address',
    default_text: '`http://<domain>:<api port>`',
    description:
      'Where people reach Coppice in a browser, such as `https://coppice.example.com`: what links to log in begin with. With `https`, a balancer in front that ends TLS must pass on the `Host` header.',
  },
  region_id: {
    type: 'region',
    default: 'local',
    description: 'The one region that the API shows.',
  },
  database_url: {
    type: 'postgres_url',
    default_text: 'a Postgres of its own in the data directory',
    secret: true,
    description: "A PostgreSQL database for Coppice's own records.",
  },
  bootstrap_api_key: {
    type: 'api_key',
    default_text: 'none; `coppice keys create` makes one',
    secret: true,
    description: 'A personal API key of the first user, for automation: at least 16 characters, no white space.',
  },
  bootstrap_email: {
    type: 'email',
    default: 'admin@coppice.localhost',
    description: 'Address of the first user, who is made at the first start.',
  },
  master_key_file: {
    type: 'path',
    default: (_, { data_dir }) => (typeof data_dir === 'string' ? join(data_dir, 'master.key') : undefined),
    default_text: '`master.key` in the data directory',
    description:
      'The key that stored role passwords are encrypted with. Made at the first start; without it they are lost.',
  },
  tls_cert: {
    type: 'path_list',
    default_text: 'certificates of an authority made in the data directory',
    description:
      'Certificate chain in PEM form for `*.<domain>`. Given together with the key. Several, separated by commas, are chosen among by the name that a client asks for; the first serves all others. Renewed files are noticed within a minute.',
  },
  tls_key: {
    type: 'path_list',
    default_text: 'as above',
    description: 'Private key in PEM form of that certificate; of several, in the same order.',
  },
  require_tls: {
    type: 'boolean',
    default: 'false',
    description: 'Refuse Postgres connections without TLS, from this machine too.',
  },
  gateway_workers: {
    type: 'count',
    default: '1',
    allowed_max: LIMITS.gateway_workers,
    description:
      'Processes that serve the Postgres port together, for more than one processor can carry. With 1 the main process does it. Several divide the pool of an endpoint among them.',
  },
  proxy_protocol: {
    type: 'choice',
    allowed: ['off', 'allowed', 'required'],
    default: 'off',
    description:
      'Whether Postgres connections may or must begin with a header of the PROXY protocol, version 2, by which a load balancer tells the address of its client.',
  },
  api_proxy_protocol: {
    type: 'choice',
    allowed: ['off', 'allowed', 'required'],
    default: 'off',
    description:
      'The same for connections to the port of the API, which WebSockets and SQL over HTTP come to as well. With `required` it is reached through the balancer alone, on this machine too.',
  },
  proxy_protocol_from: {
    type: 'network_list',
    default: '127.0.0.0/8,::1',
    description:
      'From where such headers are believed: addresses, ranges and networks. Whoever is in there can claim to be any client.',
  },
  roles: {
    type: 'choice_list',
    allowed: ['api', 'engine', 'gateway'],
    default: 'api,engine,gateway',
    description:
      'What this process does. One process of a data directory is the engine; others, started after it on the same directory, can be gateways or serve the API.',
  },
  storage: {
    type: 'choice',
    allowed: ['auto', 'btrfs', 'reflink', 'copy'],
    default: 'auto',
    description: 'How branches are copied. `auto` takes the best that the file system of the data directory can do.',
  },
  min_suspend_timeout_seconds: {
    type: 'seconds',
    default: '60',
    description: 'The shortest time without activity after which a compute may be set to be suspended.',
  },
  snapshot_wal_bytes: {
    type: 'size',
    default: '256MB',
    description:
      'A running server is snapshotted after so much write-ahead log, as long as snapshots of it are quick: restores then replay no more than that. Smaller means faster restores and more snapshots.',
  },
  snapshot_interval_seconds: {
    type: 'seconds',
    default: '300',
    description: 'A running server that writes less is snapshotted after so long, if it wrote at all.',
  },
  serve_replay_bytes: {
    type: 'size',
    default: '32MB',
    description:
      'Where a branch or restore has to replay more write-ahead log than this, the compute that is to serve it replays, and is there seconds earlier; its history begins some seconds later, with its first snapshot.',
  },
  branch_without_checkpoint: {
    type: 'boolean',
    default: 'false',
    description:
      'Branches and snapshots force no checkpoint on a running server that made one not long ago; they replay its log since then. New; needs a file system that shares blocks.',
  },
  time_travel_timeout_seconds: {
    type: 'seconds',
    default: '30',
    description:
      'What was made for clients who look into the past of a branch is removed after so long without activity.',
  },
  archive_check_interval_seconds: {
    type: 'seconds',
    default: '86400',
    description: 'How often every archived segment of write-ahead log is read and compared with its checksum.',
  },
  objects: {
    type: 'object_place',
    default_text: 'none',
    description:
      'Object storage: `s3://bucket/prefix`, or an absolute path of a directory, best on another disk. The key of S3 is found as its own tools find it: `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or `~/.aws`.',
  },
  s3_endpoint: {
    type: 'web_address',
    default_text: 'that of Amazon',
    description: 'Address of an S3 server of your own or of another provider, such as `https://s3.example.com`.',
  },
  s3_region: {
    type: 'region',
    default: ({ env }) => env.AWS_REGION || 'us-east-1',
    default_text: '`$AWS_REGION`, else `us-east-1`',
    description: 'Region of the bucket.',
  },
  archive_ship_seconds: {
    type: 'seconds',
    default: '60',
    description: 'With object storage: archived write-ahead log is sent there at the latest after so long.',
  },
  archive_local_seconds: {
    type: 'seconds',
    default_text: 'all of it stays here, too',
    allowed_max: 315_360_000,
    description:
      'With object storage: archived write-ahead log that is older and has been confirmed there goes from this disk.',
  },
  archive_branches_after_seconds: {
    type: 'seconds',
    default_text: 'never',
    allowed_max: 315_360_000,
    description:
      'A branch that nobody has touched for so long is moved to object storage as a whole, and brought back when it is needed.',
  },
  archive_branches_min_age_seconds: {
    type: 'seconds',
    default_text: 'none',
    allowed_max: 315_360_000,
    description: 'Branches that are younger are not archived.',
  },
  detach_projects_after_seconds: {
    type: 'seconds',
    default: '0',
    default_text: '0, which is never',
    allowed_min: 0,
    allowed_max: 315_360_000,
    description:
      'A project that nobody has touched for so long is moved to object storage with all of its branches and snapshots, and brought back when it is needed.',
  },
  smtp_url: {
    type: 'smtp_url',
    default_text: 'none; links are shown to whoever invites',
    secret: true,
    description:
      'A mail server that invitations are sent through, such as `smtp://user:password@mail.example.com:587` or `smtps://`.',
  },
  mail_from: {
    type: 'email',
    default_text: 'none',
    description: 'The address that mails come from. Given together with the mail server.',
  },
  oidc_issuer: {
    type: 'web_address',
    default_text: 'none',
    description:
      'Single sign-on by OpenID Connect: the address that the issuer goes by. It sends people back to `<public url>/api/auth/callback/sso`.',
  },
  oidc_client_id: {
    type: 'text',
    default_text: 'none',
    description: 'What the issuer knows Coppice as.',
  },
  oidc_client_secret: {
    type: 'text',
    default_text: 'none',
    secret: true,
    description: 'What Coppice proves that with.',
  },
  oidc_client_secret_file: {
    type: 'path',
    default_text: 'none',
    description: 'A file that holds it, instead.',
  },
  oidc_email_domains: {
    type: 'domain_list',
    default_text: 'none: people who have an account or an invitation',
    description:
      'Domains of e-mail addresses: people of these and of no others may log in by single sign-on, and get an account when they do.',
  },
  allowed_origins: {
    type: 'origin_list',
    default_text: 'none',
    description:
      'Origins of web pages that may call the API from a browser (CORS), such as `https://console.example.com`. A page needs a key all the same.',
  },
  rate_limit_per_minute: {
    type: 'count',
    default: '0',
    default_text: '0, which is no limit',
    allowed_min: 0,
    allowed_max: 1_000_000,
    description:
      'How many requests to the API one key may make in a minute; the next one is refused with 429 and `Retry-After`. Each process that serves the API counts for itself.',
  },
  rate_limit_group_per_second: {
    type: 'count',
    default: '0',
    default_text: '0, which is no limit',
    allowed_min: 0,
    allowed_max: 1_000_000,
    description:
      'How many requests one key may make in a second to routes of one group, such as those that change branches, or those that read operations.',
  },
  audit_log_retention_seconds: {
    type: 'seconds',
    default: '31536000',
    default_text: '31536000, which is a year; 0 keeps all',
    allowed_min: 0,
    allowed_max: 315_360_000,
    description: 'Entries of the audit log that are older are removed.',
  },
  operations_retention_seconds: {
    type: 'seconds',
    default: '15552000',
    default_text: '15552000, which is 180 days; 0 keeps all',
    allowed_min: 0,
    allowed_max: 315_360_000,
    description:
      'Operations that ended longer ago are forgotten, and so is what was deleted longer ago. What has not ended stays.',
  },
  keep_deleted_projects_seconds: {
    type: 'seconds',
    default: '0',
    default_text: '0, which is not at all',
    allowed_min: 0,
    allowed_max: 31_536_000,
    description:
      'A deleted project can be brought back for so long, and takes its space on the disk until then. The public API does so for 604800 (7 days).',
  },
  keep_deleted_branches_seconds: {
    type: 'seconds',
    default: '0',
    default_text: '0, which is not at all',
    allowed_min: 0,
    allowed_max: 31_536_000,
    description:
      'A deleted branch, or one that has expired, can be brought back for so long, and takes its space on the disk until then. The public API does so for 604800 (7 days).',
  },
  keep_computes: {
    type: 'boolean',
    default: 'false',
    description: 'Leave computes running when Coppice stops; the next start takes them over.',
  },
  log_level: {
    type: 'choice',
    allowed: ['debug', 'info', 'warn', 'error'],
    default: 'info',
    description: 'The least severe lines that are logged.',
  },
} as const satisfies Record<string, Setting>;

export type SettingName = keyof typeof SETTINGS;

/** `COPPICE_API_PORT` */
export const settingVariable = (name: SettingName): string => `COPPICE_${name.toUpperCase()}`;

/** `--api-port` */
export const settingFlag = (name: SettingName): string => `--${name.replaceAll('_', '-')}`;

type Value<S> = S extends { type: 'count' | 'port' | 'seconds' | 'size' }
  ? number
  : S extends { type: 'boolean' }
    ? boolean
    : S extends { type: 'choice'; allowed: readonly (infer C)[] }
      ? C
      : S extends { type: 'choice_list'; allowed: readonly (infer C)[] }
        ? readonly C[]
        : S extends { type: 'address_list' | 'domain_list' | 'network_list' | 'origin_list' | 'path_list' }
          ? readonly string[]
          : string;

/** Every setting's value. Only those without a default may be undefined. */
export type Settings = {
  readonly [N in SettingName]: (typeof SETTINGS)[N] extends { default: unknown }
    ? Value<(typeof SETTINGS)[N]>
    : Value<(typeof SETTINGS)[N]> | undefined;
};
