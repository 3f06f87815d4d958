import type { EndpointId } from '../domain/ids.ts';
import { refusals } from './refusal.ts';

/** Which endpoint a connection is for. */
export interface Route {
  readonly endpoint_id: EndpointId;
  /** The name carried the suffix of pooled hosts. */
  readonly pooled: boolean;
}

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

/** Reads an endpoint's name as a client gives it, with or without the suffix. Throws a Refusal for other characters. */
export function parseEndpointName(name: string): Route {
  if (!ENDPOINT_NAME.test(name)) throw refusals.endpointMalformed(name);
  const lower = name.toLowerCase();
  const pooled = lower.endsWith(POOLER_SUFFIX) && lower.length > POOLER_SUFFIX.length;
  return { endpoint_id: pooled ? lower.slice(0, -POOLER_SUFFIX.length) : lower, pooled };
}

/**
 * The route from the host name in TLS and the `endpoint` option; undefined when neither names one, which leaves the
 * password. Throws a Refusal when they disagree.
 */
export function chooseRoute(
  { servername, option }: { servername: string | undefined; option: string | undefined },
  domain: string,
): Route | undefined {
  const label = hostLabel(servername, domain);
  const host = label === undefined || RESERVED_LABELS.has(label) ? undefined : parseEndpointName(label);
  const named = option === undefined ? undefined : parseEndpointName(option);
  if (host && named && host.endpoint_id !== named.endpoint_id) {
    throw refusals.endpointInconsistent(host.endpoint_id, named.endpoint_id);
  }
  if (!host || !named) return host ?? named;
  return { endpoint_id: host.endpoint_id, pooled: host.pooled || named.pooled };
}
