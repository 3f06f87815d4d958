import type { FastifyInstance } from 'fastify';
import { CoppiceError } from '../../domain/errors.ts';

/** For supervisors and load balancers; no key, nothing told but the state. */
export function addHealthRoutes(app: FastifyInstance, ready: () => boolean): void {
  app.get('/healthz', { schema: { hide: true } }, async () => ({ status: 'ok' }));
  app.get('/readyz', { schema: { hide: true } }, async () => {
    if (!ready()) throw new CoppiceError('unavailable');
    return { status: 'ready' };
  });
}
