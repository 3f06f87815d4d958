import { parseReplication } from '../../wire/replication.ts';
import { parseStartupOptions } from '../../wire/startup-options.ts';
import { Refusal, refusals } from '../refusal.ts';
import { chooseRoute, namedHost, type Route, readPoint } from '../route.ts';

/** What a connection string says, read as far as it can be without asking anybody. */
export interface ConnectionString {
  readonly user: string;
  /** Undefined where none is given: then only a token can let the client in. */
  readonly password: string | undefined;
  readonly database: string;
  readonly route: Route;
  /** Of the start-up packet to the compute, besides user and database. */
  readonly parameters: ReadonlyMap<string, string>;
}

const malformed = (problem: string) => new Refusal('user', '08P01', `invalid connection string: ${problem}`);

/**
 * What libraries take out of connection strings for themselves, and what is given elsewhere in them. Everything else is a
 * parameter of the session; what the server does not know of it, the server refuses.
 */
const NOT_FOR_THE_SERVER =
  /^(?:user|password|dbname|database|host|hostaddr|port|passfile|service|servicefile|ssl\w*|gss\w*|krbsrvname|channel_binding|require_auth|requirepeer|requiressl|connect_timeout|keepalives\w*|tcp_user_timeout|target_session_attrs|load_balance_hosts|fallback_application_name|uselibpqcompat|pgbouncer|connection_limit|pool_timeout|socket_timeout|statement_cache_size|schema|min_protocol_version|max_protocol_version|client_encoding|_pq_\..*)$/;

/**
 * Reads the connection string of a request. The endpoint is named by the `endpoint` option or by the host. Throws a Refusal,
 * which never repeats the string: it holds a password.
 *
 * @param text `postgresql://<user>:<password>@<host>/<database>?<parameters>`
 */
export function readConnectionString(text: string, domain: string): ConnectionString {
  const url = parseUrl(text);
  const user = decode(url.username, 'its user');
  if (user === '') throw malformed('it names no user');
  const database = decode(url.pathname.slice(1), 'its database') || user;
  // Rows become JSON.
  const parameters = new Map([['client_encoding', 'UTF8']]);
  let endpoint: string | undefined;
  let point: ReturnType<typeof readPoint>;
  for (const [name, value] of url.searchParams) {
    if (`${name}${value}`.includes('\0')) throw malformed('a parameter holds a zero character');
    if (name === 'options') {
      const options = parseStartupOptions(value);
      endpoint = options.endpoint;
      point = readPoint(options.platform);
      if (options.forwarded) parameters.set('options', options.forwarded);
    } else if (name === 'replication') {
      if (parseReplication(value) !== 'none') throw refusals.replicationOverHttp();
    } else if (!NOT_FOR_THE_SERVER.test(name)) parameters.set(name, value);
  }
  const route = chooseRoute({ servername: namedHost(url.hostname, domain), option: endpoint, point }, domain);
  if (!route) throw refusals.endpointMissing();
  return { user, password: decode(url.password, 'its password') || undefined, database, route, parameters };
}

function parseUrl(text: string): URL {
  if (!/^postgres(?:ql)?:\/\//.test(text)) throw malformed('it does not begin with postgresql://');
  try {
    // A scheme that URLs know, for the host to be read as one.
    return new URL(text.replace(/^postgres(?:ql)?:/, 'http:'));
  } catch {
    throw malformed('it is not a URL');
  }
}

function decode(text: string, what: string): string {
  let decoded: string;
  try {
    decoded = decodeURIComponent(text);
  } catch {
    throw malformed(`${what} is not percent-encoded`);
  }
  if (decoded.includes('\0')) throw malformed(`${what} holds a zero character`);
  return decoded;
}
