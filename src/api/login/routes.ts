/**
 * Logging in, below /api/auth. A route either hands a request to the library (`library.ts`) with the fields of its body and
 * nothing else, or is handled here. What it is for and how it is bounded is said by the table in `table.ts`.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { ActionContext } from '../../actions/context.ts';
import type { SingleSignOn } from '../../domain/single-sign-on.ts';
import { ErrorBody } from '../schemas/error.ts';
import { isSecure, requireOwnOrigin } from '../web-origin.ts';
import { LoginDesk } from './desk.ts';
import { LOGIN_PREFIX } from './library.ts';
import { addLinkPage } from './link-page.ts';
import { LOGIN_ROUTES, type LoginRoute } from './table.ts';

/** Nothing of it costs anything before somebody logs in. */
export async function addLoginRoutes(
  app: FastifyInstance,
  context: ActionContext,
  sso: SingleSignOn | undefined,
): Promise<void> {
  const desk = new LoginDesk(context, { log: app.log, sso });
  app.addHook('onClose', () => desk.close());
  addLinkPage(app);
  for (const route of LOGIN_ROUTES) addRoute(app, context, desk, route);
  app.get(`${LOGIN_PREFIX}/methods`, { schema: { hide: true, summary: 'How people may log in' } }, async () => ({
    password: true,
    single_sign_on: sso !== undefined,
  }));
}

function addRoute(app: FastifyInstance, context: ActionContext, desk: LoginDesk, route: LoginRoute): void {
  const { public_url } = context.installation;
  app.route({
    method: route.method,
    url: `${LOGIN_PREFIX}${route.path}`,
    schema: {
      hide: true,
      summary: route.summary,
      ...(route.body && { body: route.body }),
      response: { '4xx': ErrorBody, '5xx': ErrorBody },
    },
    onRequest: async (request, reply) => {
      reply.header('cache-control', 'no-store');
      if (route.method !== 'GET') requireOwnOrigin(request, public_url);
    },
    handler: async (request, reply) => {
      const fields = fieldsOf(route, request);
      if (route.guess) desk.guard(request.ip, typeof fields.email === 'string' ? fields.email : undefined);
      if (route.handle) return route.handle({ context, request, fields });
      return desk.forward(route, { request, reply, fields, secure: isSecure(request, public_url) });
    },
  });
}

/** The fields that the route's schema names: no other reaches the library. */
function fieldsOf({ body }: LoginRoute, request: FastifyRequest): Record<string, unknown> {
  const given = (request.body ?? {}) as Record<string, unknown>;
  const names = Object.keys(body?.properties ?? {}).filter((name) => given[name] !== undefined);
  return Object.fromEntries(names.map((name) => [name, given[name]]));
}
