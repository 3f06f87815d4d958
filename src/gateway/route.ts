import type { BranchId, EndpointId } from '../domain/ids.ts';
import type { PointText } from './contract.ts';
import { refusals } from './refusal.ts';

/** What a connection is for: an endpoint, or a branch as it was at a point of its history. */
export type Route = EndpointRoute | BranchRoute;

export interface EndpointRoute {
  readonly endpoint_id: EndpointId;
  /** The name carried the suffix of pooled hosts. */
  readonly pooled: boolean;
}

export interface BranchRoute {
  readonly branch_id: BranchId;
  readonly point: PointText;
  readonly pooled: boolean;
}

/** What a client asked for, as it wrote it. */
export interface RouteRequest {
  /** The host name in TLS. */
  readonly servername?: string;
  /** The `endpoint` option. */
  readonly option?: string;
  readonly point?: PointText;
}

const BRANCH_PREFIX = 'br-';
const POOLER_SUFFIX = '-pooler';
/** First labels of hosts that serve HTTP, never an endpoint. */
const RESERVED_LABELS = new Set(['api', 'apiauth']);
const ENDPOINT_NAME = /^[A-Za-z0-9-]+$/;
const HOST_LABEL = /^[a-z0-9-]{1,63}$/;

/** The label in front of the domain in a host name; undefined when the name is not exactly one label under the domain. */
export function hostLabel(servername: string | undefined, domain: string): string | undefined {
  const host = servername?.toLowerCase().replace(/\.$/, '');
  if (!host?.endsWith(`.${domain}`)) return undefined;
  const label = host.slice(0, -domain.length - 1);
  return HOST_LABEL.test(label) ? label : undefined;
}

/** What an endpoint or a branch begins with. */
const ID_LABEL = /^(?:ep|br)-[a-z0-9-]+$/;

/**
 * A host name of a connection string or a header, as if a client had sent it in TLS. Under another domain its first label
 * counts if it looks like an id: strings of another installation are used here unchanged.
 *
 * @param host `ep-x.localhost`, `ep-x.localhost:5432`; anything else than the name of an endpoint is undefined
 */
export function namedHost(host: string | undefined, domain: string): string | undefined {
  const name = host?.replace(/:\d*$/, '').toLowerCase().replace(/\.$/, '');
  if (hostLabel(name, domain) !== undefined) return name;
  const [label = '', ...rest] = name?.split('.') ?? [];
  return rest.length > 0 && ID_LABEL.test(label) && HOST_LABEL.test(label) ? `${label}.${domain}` : undefined;
}

interface Name {
  readonly id: EndpointId | BranchId;
  readonly pooled: boolean;
}

/** Reads an endpoint's name as a client gives it, with or without the suffix. Throws a Refusal for other characters. */
function parseName(name: string): Name {
  if (!ENDPOINT_NAME.test(name)) throw refusals.endpointMalformed(name);
  const lower = name.toLowerCase();
  const pooled = lower.endsWith(POOLER_SUFFIX) && lower.length > POOLER_SUFFIX.length;
  return { id: pooled ? lower.slice(0, -POOLER_SUFFIX.length) : lower, pooled };
}

/** A branch is reached at a point alone, and an endpoint is always in the present. */
function routeTo({ id, pooled }: Name, point: PointText | undefined): Route {
  if (id.startsWith(BRANCH_PREFIX)) {
    if (!point) throw refusals.branchWithoutPoint(id);
    return { branch_id: id, point, pooled };
  }
  if (point) throw refusals.pointOfEndpoint(id);
  return { endpoint_id: id, pooled };
}

/** The route to what a password names. Throws a Refusal. */
export const namedRoute = (name: string, point?: PointText): Route => routeTo(parseName(name), point);

/**
 * The route from the host name in TLS and the `endpoint` option; undefined when neither names one, which leaves the
 * password. Throws a Refusal when they disagree, or do not go with the point.
 */
export function chooseRoute({ servername, option, point }: RouteRequest, domain: string): Route | undefined {
  const label = hostLabel(servername, domain);
  const host = label === undefined || RESERVED_LABELS.has(label) ? undefined : parseName(label);
  const named = option === undefined ? undefined : parseName(option);
  if (host && named && host.id !== named.id) throw refusals.endpointInconsistent(host.id, named.id);
  const name = host ?? named;
  return name && routeTo({ id: name.id, pooled: [host, named].some((one) => one?.pooled) }, point);
}

/** What the route leads to, by its own id. */
export const routeTarget = (route: Route): EndpointId | BranchId =>
  'branch_id' in route ? route.branch_id : route.endpoint_id;

/** Everything is passed on anyway, which is what this asks for. */
const WITHOUT_EFFECT = 'proxy_params_compat';

/** The point that the platform's options name, if any. Throws a Refusal for two, and for options that nobody here knows. */
export function readPoint(options: readonly (readonly [key: string, value: string])[]): PointText | undefined {
  let point: PointText | undefined;
  for (const [kind, text] of options) {
    if (kind === WITHOUT_EFFECT) continue;
    if (kind !== 'lsn' && kind !== 'timestamp') throw refusals.optionUnknown(`neon_${kind}`);
    if (point) throw refusals.pointAmbiguous();
    point = { kind, text };
  }
  return point;
}
