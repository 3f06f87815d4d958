import type { EndpointId } from './ids.ts';

/** What host names and connection strings are made of; facts of the installation. */
export interface HostNaming {
  /** Hosts are `<endpoint id>.<domain>`. */
  readonly domain: string;
  /** In every host and string when it is not 5432. */
  readonly pg_port: number;
  /** False where names below the default domain do not resolve: strings then name `localhost`. */
  readonly domain_resolves: boolean;
}

export interface ConnectionTarget {
  readonly endpoint_id: EndpointId;
  readonly pooled?: boolean;
  readonly role: string;
  readonly password: string;
  readonly database: string;
}

const DEFAULT_PORT = 5432;

/** Names below localhost stay on this machine: plaintext is allowed, and no client can look their certificate up. */
const isLocal = (domain: string): boolean => domain === 'localhost' || domain.endsWith('.localhost');

const withPort = (host: string, port: number): string => (port === DEFAULT_PORT ? host : `${host}:${port}`);

/** The name a gateway knows an endpoint by: its id, and whether through the pooler. */
const gatewayName = (id: EndpointId, pooled = false): string => (pooled ? `${id}-pooler` : id);

/** The endpoint's host as the API shows it, with the port when it is not 5432: neonctl builds its strings from it. */
export function endpointHost(naming: HostNaming, id: EndpointId, pooled?: boolean): string {
  return withPort(`${gatewayName(id, pooled)}.${naming.domain}`, naming.pg_port);
}

/** The host that stands literally in a connection string. Clients replace it by the pooled one, so the two go together. */
export function connectionHost(naming: HostNaming, id: EndpointId, pooled?: boolean): string {
  return naming.domain_resolves ? endpointHost(naming, id, pooled) : withPort('localhost', naming.pg_port);
}

/**
 * The URI that every driver connects with. On a real domain it asks for TLS with channel binding; below localhost it
 * carries the endpoint in `options`, since without TLS there is no SNI to tell it by.
 */
export function connectionUri(naming: HostNaming, target: ConnectionTarget): string {
  const { endpoint_id, pooled, role, password, database } = target;
  const query = isLocal(naming.domain)
    ? `options=endpoint%3D${gatewayName(endpoint_id, pooled)}`
    : 'sslmode=require&channel_binding=require';
  const login = `${encodeURIComponent(role)}:${encodeURIComponent(password)}`;
  return `postgresql://${login}@${connectionHost(naming, endpoint_id, pooled)}/${encodeURIComponent(database)}?${query}`;
}
