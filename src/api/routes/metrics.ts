import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { ActionContext } from '../../actions/context.ts';
import { plainAddress } from '../../domain/address-rules.ts';
import { CoppiceError } from '../../domain/errors.ts';
import { METRICS_CONTENT_TYPE, type Metrics } from '../../watch/metrics.ts';
import { authenticate } from '../authenticate.ts';
import { shownBy } from '../web-origin.ts';

const LOCAL_HOST = /^(localhost|[\w.-]+\.localhost|127\.[\d.]+|\[::1\])(:\d+)?$/i;
const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-real-ip', 'via'];

/** What is measured, in Prometheus's text format, for this machine and for people of this installation. */
export function addMetricsRoute(app: FastifyInstance, context: ActionContext, metrics: Metrics): void {
  app.get('/metrics', { schema: { hide: true } }, async (request, reply) => {
    if (!isFromThisMachine(request)) await checkKey(context, request);
    reply.header('cache-control', 'no-store').type(METRICS_CONTENT_TYPE);
    return metrics.text();
  });
}

/** Endpoints are named, which is for people of this installation. */
async function checkKey(context: ActionContext, request: FastifyRequest): Promise<void> {
  const caller = await authenticate(context, shownBy(request, context.installation.public_url));
  if (caller.kind !== 'personal') throw new CoppiceError('organization_key_refused');
}

/**
 * Asked from loopback by somebody who is there: a proxy on this machine would pass on strangers, and a page in a browser
 * could ask under a name of its own that leads here.
 */
function isFromThisMachine({ socket, headers }: FastifyRequest): boolean {
  const address = plainAddress(socket.remoteAddress ?? '') ?? '';
  const loopback = address === '::1' || /^127\./.test(address);
  return loopback && LOCAL_HOST.test(headers.host ?? '') && FORWARDED.every((name) => headers[name] === undefined);
}
