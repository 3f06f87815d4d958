/**
 * The management API over HTTP.
 *
 * How a noun is served: `routes/<noun>.ts` exports an array of routes made by `route()` (route.ts) and is named in
 * `routes.ts`. A route is data: method, path below /api/v2, the name of its entry in `permissions.ts`, a summary, and
 * TypeBox schemas (`params`, `querystring`, `body`, `response` by status; `schemas/<noun>.ts`). Before its `handle` is
 * called the key is authenticated and its kind checked, the request validated (query and path texts converted, bodies
 * never; a body that may be missing is `Type.Union([Body, Type.Null()])`), and the scope authorised: a permission of
 * scope `project` hands in the `AccessibleProject` of the path's `:project_id`, which actions take as their proof.
 * `handle({ context, caller, project, params, query, body })` returns `reply(status, body)`; the body is what a
 * `serializers/<noun>.ts` function made of a row, is typed by the response schema and written by it: a field that is
 * not in the schema is not sent. Refusals are thrown as CoppiceError. 204 is `reply(204, null)`.
 */

import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import swagger from '@fastify/swagger';
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify';
import { accessOrganization, accessProject, type ProjectAccess } from '../actions/access.ts';
import type { Caller } from '../actions/caller.ts';
import type { ActionContext } from '../actions/context.ts';
import { KeyUse } from '../actions/key-use.ts';
import { OperationWaits } from '../actions/operation-waits.ts';
import { CoppiceError } from '../domain/errors.ts';
import type { OperationId } from '../domain/ids.ts';
import { LIMITS } from '../domain/limits.ts';
import { sessionTokenIn } from '../domain/session-cookie.ts';
import type { SingleSignOn } from '../domain/single-sign-on.ts';
import type { ChangeWatch } from '../store/change-watch.ts';
import type { OrganizationRow, ProjectRow } from '../store/schema.ts';
import type { Metrics } from '../watch/metrics.ts';
import { actionName } from './action-name.ts';
import { answerOnce } from './answer-once.ts';
import { attributedContext } from './attribution.ts';
import { authenticate } from './authenticate.ts';
import { allowOrigins } from './cors.ts';
import { answerUnreadable, sendError } from './errors.ts';
import { EventFeed } from './event-feed.ts';
import { EventStreams } from './event-streams.ts';
import { addLoginRoutes } from './login/routes.ts';
import { openapiOptions } from './openapi.ts';
import { operationInTheWay } from './operation-in-the-way.ts';
import { PERMISSIONS, type Permission } from './permissions.ts';
import { withPreferredWait } from './preferred-wait.ts';
import { createRateLimits, type RateLimitSettings, type RateLimits } from './rate-limits.ts';
import type { Route, RouteInput, RouteSchema } from './route.ts';
import { addDocsRoutes } from './routes/docs.ts';
import { addHealthRoutes } from './routes/health.ts';
import { addMetricsRoute } from './routes/metrics.ts';
import { ROUTES } from './routes.ts';
import { ErrorBody } from './schemas/error.ts';
import { addJsonParser, validatorCompiler } from './validation.ts';
import { requireOwnOrigin, shownBy } from './web-origin.ts';
import { whenGone } from './when-gone.ts';

const API_PREFIX = '/api/v2';
const LINES = 'application/x-ndjson';

export interface StatusOptions {
  readonly context: ActionContext;
  /** True once projects can be created: what /readyz says. */
  readonly ready: () => boolean;
  readonly logger: FastifyBaseLogger;
  /** What /metrics shows; it is not served without. */
  readonly metrics?: Metrics;
  /** Origins of browsers that may call; none by default. */
  readonly allowed_origins?: readonly string[];
  /** How often a key may call; as often as it likes unless given. */
  readonly rate_limits?: RateLimitSettings;
}

export interface ApiOptions extends StatusOptions {
  /** Where requests that wait hear that they may look again. */
  readonly changes: ChangeWatch;
  /** Where people may log in instead of here. */
  readonly sso?: SingleSignOn;
}

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller | undefined;
    /** Of routes below a project. */
    project_access: ProjectAccess | undefined;
    prefetched: Promise<unknown> | undefined;
  }
}

/** Builds the server; the caller listens and closes. */
export async function createApi(options: ApiOptions): Promise<FastifyInstance> {
  const app = createBase(options, refuseUnknown);
  addDocsRoutes(app);
  await app.register(async (api) => addApiRoutes(api, options), { prefix: API_PREFIX });
  await app.register(async (login) => addLoginRoutes(login, options.context, options.sso));
  await app.ready();
  return app;
}

/** What a process without the API serves: whether it lives, and what it measures. */
export async function createStatusServer(options: StatusOptions): Promise<FastifyInstance> {
  const app = createBase(options, () => {
    throw new CoppiceError('route_not_found');
  });
  await app.ready();
  return app;
}

function createBase(
  options: StatusOptions,
  refuse: (request: FastifyRequest, reply: FastifyReply) => never,
): FastifyInstance {
  const app: FastifyInstance = Fastify({
    loggerInstance: options.logger,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
    bodyLimit: LIMITS.request_body_bytes,
    requestTimeout: LIMITS.request_timeout_ms,
    forceCloseConnections: 'idle',
    routerOptions: { maxParamLength: LIMITS.path_parameter_characters },
    requestIdHeader: false,
    genReqId: (request) => requestId(request.headers['x-request-id']),
    frameworkErrors: sendError,
    clientErrorHandler: answerUnreadable,
  });
  app.setValidatorCompiler(validatorCompiler);
  app.setErrorHandler(sendError);
  app.setNotFoundHandler(refuse);
  addJsonParser(app);
  app.decorateRequest('caller', undefined);
  app.decorateRequest('project_access', undefined);
  app.decorateRequest('prefetched', undefined);
  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id);
    if (request.is404) refuse(request, reply);
    if (request.url.includes('%00')) {
      throw new CoppiceError('invalid_request', { field: 'path', problem: 'must not contain a zero character' });
    }
    if (Object.values(request.params as Record<string, string>).includes('')) throw new CoppiceError('route_not_found');
  });
  endConnectionsWhenClosing(app);
  app.addHook('onResponse', logRequest);
  if (options.allowed_origins?.length) allowOrigins(app, options.allowed_origins);
  addHealthRoutes(app, options.ready);
  if (options.metrics) addMetricsRoute(app, options.context, options.metrics);
  return app;
}

async function addApiRoutes(api: FastifyInstance, { context, changes, rate_limits }: ApiOptions): Promise<void> {
  await api.register(swagger, openapiOptions(API_PREFIX));
  api.get('/openapi.json', { schema: { hide: true } }, async () => api.swagger());
  const keyUse = new KeyUse(context.store, (error) => api.log.warn({ err: error }, 'use of API keys was not recorded'));
  api.addHook('onClose', () => keyUse.close());
  const waits = new OperationWaits(context.store, changes);
  const onError = (error: unknown) => api.log.warn({ err: error }, 'events could not be read and will be later');
  const streams = new EventStreams(new EventFeed({ store: context.store, changes, onError }), onError);
  api.addHook('preClose', async () => {
    waits.close();
    streams.close();
  });
  const rateLimits = rate_limits && createRateLimits(rate_limits);
  api.setErrorHandler(async (error, request, reply) =>
    sendError(error, request, reply, await operationInTheWay(context.store, error, request)),
  );
  for (const route of ROUTES) addRoute(api, { context, keyUse, waits, streams, rateLimits }, route);
}

/** What routes share. */
interface Shared {
  readonly context: ActionContext;
  readonly keyUse: KeyUse;
  readonly waits: OperationWaits;
  readonly rateLimits: RateLimits | undefined;
  readonly streams: EventStreams;
}

function addRoute(api: FastifyInstance, shared: Shared, route: Route): void {
  const { context, keyUse, waits, rateLimits } = shared;
  const permission: Permission = PERMISSIONS[route.permission];
  const action = actionName(route.method, route.path);
  const { response, ...input } = route.schema;
  api.route({
    method: route.method,
    url: route.path,
    schema: { ...input, response: { ...response, '4xx': ErrorBody, '5xx': ErrorBody }, summary: route.summary },
    onRequest: async (request, reply) => {
      reply.header('cache-control', 'no-store');
      const shown = shownBy(request, context.installation.public_url);
      rateLimits?.(
        reply,
        shown.authorization ?? sessionTokenIn(shown.cookie, shown.secure, context.vault) ?? '',
        route.permission,
      );
      if (permission.scope === 'project') {
        request.project_access = accessProject(context, (request.params as { project_id: string }).project_id);
      }
      request.prefetched = route.prefetch?.(context, request.params as Record<string, string>);
      // Nobody waits for it when the caller is turned away before.
      request.prefetched?.catch(() => undefined);
      const caller = await authenticate(context, shown);
      if (caller.key_id !== undefined) keyUse.note(caller.key_id, request.ip);
      else if (route.method !== 'GET') requireOwnOrigin(request, context.installation.public_url);
      const refusal = permission.refused[caller.kind];
      if (refusal) throw new CoppiceError(refusal, { project_id: caller.kind === 'project' ? caller.project_id : '' });
      if (caller.read_only && (route.method !== 'GET' || permission.reveals)) throw new CoppiceError('key_read_only');
      request.caller = caller;
    },
    handler: async (request, reply) => {
      const input = await authorised(shared, permission, { request, reply });
      if (route.lines && request.headers.accept?.includes(LINES)) {
        return reply.type(LINES).send(Readable.from(route.lines(input)));
      }
      const writing = route.method === 'GET' ? input : attributedInput(input, request, action);
      const answer = await answerOnce(writing.context, { request, reply }, (own) =>
        route.handle({ ...writing, context: own }),
      );
      reply.code(answer.status);
      if (answer.headers) reply.headers(answer.headers);
      if (route.method === 'GET') return answer.body;
      return withPreferredWait(context, waits, { request, reply, body: answer.body });
    },
  });
}

async function authorised(
  { context, waits, streams }: Shared,
  permission: Permission,
  { request, reply }: { request: FastifyRequest; reply: FastifyReply },
) {
  const caller = request.caller!;
  const ids = request.params as { org_id?: string };
  const input: Record<keyof RouteInput<RouteSchema, Route['permission']>, unknown> = {
    context,
    caller,
    project: undefined,
    organization: undefined,
    params: request.params,
    query: request.query,
    body: request.body,
    headers: request.headers,
    reauthenticate: () => authenticate(context, shownBy(request, context.installation.public_url)),
    streams,
    prefetched: request.prefetched,
    untilEnded: (ids: readonly OperationId[], seconds: number) =>
      waits.untilEnded(ids, { timeout_ms: seconds * 1000, gone: whenGone(reply) }),
  };
  if (permission.scope === 'project') {
    input.project = await request.project_access!(caller, permission.role);
  } else if (permission.scope === 'organization') {
    input.organization = await accessOrganization(context, caller, ids.org_id!, permission.role);
  }
  return input as RouteInput<RouteSchema, Route['permission']>;
}

/** What a route that may change something gets: whatever it changes is in the audit log. */
function attributedInput<I extends Awaited<ReturnType<typeof authorised>>>(
  input: I,
  request: FastifyRequest,
  action: string,
): I {
  const { project, organization } = input as { project?: ProjectRow; organization?: OrganizationRow };
  const organization_id = project?.organization_id ?? organization?.id;
  return { ...input, context: attributedContext(input.context, request, { action, organization_id }) };
}

const PATTERNS = ROUTES.map(({ method, path }) => ({
  method,
  pattern: new RegExp(`^${API_PREFIX}${path.replace(/:\w+/g, '[^/]+')}$`),
}));

/** 405 where other methods are served, else 404. Needs no key: which routes exist is no secret. */
function refuseUnknown(request: FastifyRequest, reply: FastifyReply): never {
  const path = request.url.split('?', 1)[0]!;
  const served = PATTERNS.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method);
  if (served.length === 0) throw new CoppiceError('route_not_found');
  const allowed = served.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : method)).join(', ');
  reply.header('allow', allowed);
  throw new CoppiceError('method_not_allowed', { method: request.method, allowed });
}

/** Else a client that keeps its connection holds up the end: Fastify sees only to requests that come later. */
function endConnectionsWhenClosing(app: FastifyInstance): void {
  let closing = false;
  app.addHook('preClose', async () => {
    closing = true;
  });
  app.addHook('onSend', async (_request, reply) => {
    if (closing) reply.header('connection', 'close');
  });
}

/** The client's own id when it is a plain token, else a new one. */
function requestId(header: string | string[] | undefined): string {
  return typeof header === 'string' && /^[\w.:-]{1,128}$/.test(header) ? header : randomUUID();
}

/** Changes are logged with the key that made them. */
async function logRequest(request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const facts = {
    method: request.method,
    route: request.routeOptions.url,
    status: reply.statusCode,
    duration_ms: Math.round(reply.elapsedTime),
    key_id: request.caller?.key_id,
  };
  if (request.method === 'GET' || request.method === 'HEAD') request.log.debug(facts, 'answered');
  else request.log.info(facts, 'answered');
}
