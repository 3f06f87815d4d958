import type { FastifyInstance } from 'fastify';

const PREFLIGHT_SECONDS = 600;

/** Lets browsers of the given origins call the API with a key. Nothing is sent to other origins. */
export function allowOrigins(app: FastifyInstance, origins: readonly string[]): void {
  const allowed = new Set(origins);
  app.addHook('onRequest', async (request, reply) => {
    const { origin } = request.headers;
    if (!origin || !allowed.has(origin)) return;
    reply.header('access-control-allow-origin', origin).header('vary', 'Origin');
    reply.header('access-control-expose-headers', 'X-Request-ID, Retry-After, RateLimit, RateLimit-Policy');
  });
  app.options('/api/v2/*', async (request, reply) => {
    if (allowed.has(request.headers.origin ?? '')) {
      reply.header('access-control-allow-methods', 'GET, POST, PATCH, PUT, DELETE');
      reply.header(
        'access-control-allow-headers',
        'Authorization, Content-Type, X-Request-ID, Idempotency-Key, Prefer, Last-Event-ID',
      );
      reply.header('access-control-max-age', PREFLIGHT_SECONDS);
    }
    return reply.code(204).send();
  });
}
