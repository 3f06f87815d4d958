import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { isAddressRule } from './address-rules.ts';
import { LIMITS } from './limits.ts';
import { parseObjectPlace } from './object-place.ts';
import {
  SETTINGS,
  type Setting,
  type SettingName,
  type Settings,
  type SettingsMachine,
  type SettingType,
  settingFlag,
  settingVariable,
} from './settings.ts';

/** Flags as a command-line parser gives them: camel-case names, `true` for a flag without a value. */
export type GivenFlags = Readonly<Record<string, string | boolean | undefined>>;

export type SettingsResult =
  | { readonly settings: Settings; readonly warnings: readonly string[] }
  /** Every problem at once, one sentence each: which setting, the value unless it is secret, what to give instead. */
  | { readonly problems: readonly string[] };

/** The text is not a value of the type; the message ends a sentence that begins with the setting and its text. */
class UnreadableValue extends Error {}

type Reader = (text: string, setting: Setting, machine: SettingsMachine) => unknown;

const TRUE = new Set(['true', '1', 'yes', 'on']);
const FALSE = new Set(['false', '0', 'no', 'off']);
const HOST_NAME = /^(?=.{1,190}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/;
/** Set by container platforms for a service that is called coppice, or read by our tests and measurements. */
const OTHER_VARIABLE = /^COPPICE_(SERVICE_|PORT$|PORT_|TEST_|BENCH_)/;

function readInteger(text: string, smallest: number, largest: number, what: string): number {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= smallest && value <= largest) return value;
  throw new UnreadableValue(`is not ${what}; give a whole number from ${smallest} to ${largest}`);
}

const SIZE_UNITS: Readonly<Record<string, number>> = { kB: 1024, MB: 1024 ** 2, GB: 1024 ** 3, TB: 1024 ** 4 };

/** In bytes; units as Postgres writes them, which are powers of 1024. */
function readSize(text: string): number {
  const [, digits, unit = ''] = /^([1-9]\d{0,5})(kB|MB|GB|TB)$/.exec(text) ?? [];
  if (digits) return Number(digits) * SIZE_UNITS[unit]!;
  throw new UnreadableValue('is not a size; give one such as 64MB or 1GB');
}

function readMatching(pattern: RegExp, advice: string): Reader {
  return (text) => {
    if (pattern.test(text)) return text;
    throw new UnreadableValue(advice);
  };
}

const readItems = (text: string): string[] => [...new Set(splitItems(text))];

function splitItems(text: string): string[] {
  const items = text.split(',').map((item) => item.trim());
  if (items.includes('')) throw new UnreadableValue('has an empty item; separate the items by single commas');
  return items;
}

function readChoice(text: string, { allowed = [] }: Setting): string {
  if (allowed.includes(text)) return text;
  throw new UnreadableValue(`is not among the choices; give one of ${allowed.join(', ')}`);
}

const READERS: Record<SettingType, Reader> = {
  address_list: (text) => {
    const items = readItems(text);
    const wrong = items.find((item) => isIP(item) === 0);
    if (wrong === undefined) return items;
    throw new UnreadableValue(`holds "${wrong}", which is not an IP address; give addresses separated by commas`);
  },
  api_key: readMatching(/^[\x21-\x7e]{16,256}$/, 'must be 16 to 256 printable characters without white space'),
  boolean: (text) => {
    if (TRUE.has(text.toLowerCase())) return true;
    if (FALSE.has(text.toLowerCase())) return false;
    throw new UnreadableValue('is neither true nor false; give one of the two');
  },
  choice: readChoice,
  choice_list: (text, setting) => readItems(text).map((item) => readChoice(item, setting)),
  count: (text, { allowed_min = 1, allowed_max = 1 }) => readInteger(text, allowed_min, allowed_max, 'a number'),
  domain: readMatching(HOST_NAME, 'is not a domain name; give one in lower case, such as db.example.com'),
  domain_list: (text) => {
    const items = readItems(text.toLowerCase());
    const wrong = items.find((item) => !HOST_NAME.test(item));
    if (wrong === undefined) return items;
    throw new UnreadableValue(`holds "${wrong}", which is not a domain name; give domains separated by commas`);
  },
  email: readMatching(/^[^\s@]+@[^\s@]{1,190}$/, 'is not an email address; give one such as you@example.com'),
  network_list: (text) => {
    const items = readItems(text);
    const wrong = items.find((item) => !isAddressRule(item));
    if (wrong === undefined) return items;
    throw new UnreadableValue(`holds "${wrong}"; give addresses, ranges (a-b) and networks (a/n) separated by commas`);
  },
  object_place: (text) => {
    if (parseObjectPlace(text)) return text;
    throw new UnreadableValue('is no place for objects; give s3://bucket/prefix or an absolute path of a directory');
  },
  origin_list: (text) => {
    const items = readItems(text);
    const wrong = items.find((item) => !/^https?:/.test(item) || !URL.canParse(item) || new URL(item).origin !== item);
    if (wrong === undefined) return items;
    throw new UnreadableValue(`holds "${wrong}"; give origins such as https://console.example.com separated by commas`);
  },
  path: (text, _, { cwd }) => resolve(cwd, text),
  // One file may serve twice.
  path_list: (text, _, { cwd }) => splitItems(text).map((item) => resolve(cwd, item)),
  port: (text) => readInteger(text, 0, 65_535, 'a port'),
  postgres_url: (text) => {
    if (/^postgres(ql)?:\/\/./.test(text) && URL.canParse(text)) return text;
    throw new UnreadableValue('is not a Postgres address; give one such as postgres://user@host/database');
  },
  region: readMatching(/^[a-z0-9-]{1,60}$/, 'is not a region; give up to 60 lower-case letters, digits and hyphens'),
  seconds: (text, { allowed_min = 1, allowed_max = LIMITS.suspend_timeout_seconds_max }) =>
    readInteger(text, allowed_min, allowed_max, 'a number of seconds'),
  size: readSize,
  smtp_url: (text) => {
    if (/^smtps?:\/\/./.test(text) && URL.canParse(text) && new URL(text).hostname !== '') return text;
    throw new UnreadableValue('is not the address of a mail server; give one such as smtp://user:password@host:587');
  },
  text: readMatching(/^[\x21-\x7e]{1,1000}$/, 'must be printable characters without white space'),
  web_address: (text) => {
    const url = /^https?:\/\/./.test(text) && URL.canParse(text) ? new URL(text) : undefined;
    // A password in it would be shown wherever the address is.
    if (url && url.username === '' && url.password === '' && url.search === '') return text;
    throw new UnreadableValue('is not an address; give one such as https://s3.example.com');
  },
};

const camelCase = (name: string): string => name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());

/** What was given for a setting and where, a flag before a variable. An empty variable counts as not set. */
function given(
  name: SettingName,
  flags: GivenFlags,
  env: SettingsMachine['env'],
): { text: string; by: string } | undefined {
  const flag = flags[camelCase(name)];
  if (flag !== undefined) return { text: String(flag), by: settingFlag(name) };
  const variable = settingVariable(name);
  const text = env[variable];
  return text ? { text, by: variable } : undefined;
}

function pairProblems(values: Record<string, unknown>): string[] {
  const problems: string[] = [];
  if (values.api_port === values.pg_port && typeof values.api_port === 'number' && values.api_port !== 0) {
    problems.push(
      `${settingFlag('api_port')} and ${settingFlag('pg_port')} are both ${values.api_port}; give two ports`,
    );
  }
  for (const [one, other] of [
    ['tls_cert', 'tls_key'],
    ['tls_key', 'tls_cert'],
    ['archive_branches_min_age_seconds', 'archive_branches_after_seconds'],
    ['smtp_url', 'mail_from'],
    ['mail_from', 'smtp_url'],
  ] as const) {
    if (values[one] !== undefined && values[other] === undefined) {
      problems.push(`${settingFlag(one)} is given without ${settingFlag(other)}; give both or neither`);
    }
  }
  const [certificates, keys] = [values.tls_cert, values.tls_key] as (readonly string[] | undefined)[];
  if (certificates && keys && certificates.length !== keys.length) {
    problems.push(
      `${settingFlag('tls_cert')} has ${certificates.length} items and ${settingFlag('tls_key')} ${keys.length}; give a key for each certificate`,
    );
  }
  const secrets = [values.oidc_client_secret, values.oidc_client_secret_file].filter((value) => value !== undefined);
  if ((values.oidc_issuer === undefined) !== (values.oidc_client_id === undefined || secrets.length !== 1)) {
    problems.push(
      `${settingFlag('oidc_issuer')} needs ${settingFlag('oidc_client_id')} and one of ${settingVariable('oidc_client_secret')} and ${settingFlag('oidc_client_secret_file')}, and these need it`,
    );
  }
  if (values.archive_branches_after_seconds !== undefined && values.objects === undefined) {
    problems.push(
      `${settingFlag('archive_branches_after_seconds')} is given without ${settingFlag('objects')}; say where branches are to be archived`,
    );
  }
  if (Number(values.detach_projects_after_seconds) > 0 && values.objects === undefined) {
    problems.push(
      `${settingFlag('detach_projects_after_seconds')} is given without ${settingFlag('objects')}; say where projects are to go`,
    );
  }
  return problems;
}

function unknownVariables(env: SettingsMachine['env']): string[] {
  const known = new Set((Object.keys(SETTINGS) as SettingName[]).map(settingVariable));
  return Object.keys(env)
    .filter((name) => name.startsWith('COPPICE_') && !known.has(name) && !OTHER_VARIABLE.test(name))
    .map((name) => `${name} is set but is not a setting; docs/settings.md names them all`);
}

/** Reads every setting: flag, else environment variable, else default. Pure. */
export function readSettings(flags: GivenFlags, machine: SettingsMachine): SettingsResult {
  const values: Record<string, unknown> = {};
  const problems: string[] = [];
  for (const [name, setting] of Object.entries(SETTINGS) as [SettingName, Setting][]) {
    const source = given(name, flags, machine.env);
    const fallback = typeof setting.default === 'function' ? setting.default(machine, values) : setting.default;
    const text = source?.text ?? fallback;
    if (text === undefined) {
      if (name === 'data_dir') {
        problems.push(`${settingFlag(name)} has no default here, since HOME is not set; give a directory`);
      }
      continue;
    }
    try {
      values[name] = READERS[setting.type](text, setting, machine);
    } catch (error) {
      if (!(error instanceof UnreadableValue)) throw error;
      problems.push(`${source?.by ?? settingFlag(name)}${setting.secret ? '' : `: "${text}"`} ${error.message}`);
    }
  }
  problems.push(...pairProblems(values));
  if (problems.length > 0) return { problems };
  return { settings: values as unknown as Settings, warnings: unknownVariables(machine.env) };
}
