import type { FastifyDynamicSwaggerOptions, SwaggerTransform } from '@fastify/swagger';
import type { FastifySchema } from 'fastify';
import { PERMISSIONS, type Permission } from './permissions.ts';
import { PUBLIC_OPERATIONS } from './public-operations.ts';
import type { Route } from './route.ts';
import { ROUTES } from './routes.ts';
import { ErrorBody } from './schemas/error.ts';

/** What the OpenAPI document says of routes beyond their schemas. Nothing here is looked at when a request comes. */

const NOT_SERVED = 'Not on this server';
const ERROR_SCHEMA = 'Error';

/** By the first word of a permission, where its own name would not do. */
const TAGS: Readonly<Record<string, string>> = {
  api_keys: 'API keys',
  organization_key: 'API keys',
  user: 'Account',
  auth: 'Account',
  regions: 'Account',
  member: 'Organizations',
  invitation: 'Organizations',
  organization: 'Organizations',
  branch: 'Branches',
  audit_log: 'Audit log',
  connection_uri: 'Connection strings',
  organization_webhook: 'Webhooks',
  consumption: 'Consumption',
};

const SUCCESS: Readonly<Record<string, string>> = {
  200: 'Done',
  201: 'Made',
  202: 'Begun',
  204: 'Done, with nothing to tell',
};

const RETRY_AFTER = { 'retry-after': { description: 'Seconds after which to ask again', schema: { type: 'integer' } } };
const TO_BE_REPEATED = [423, 429, 503];

type Refusals = readonly (readonly [status: number, description: string])[];

/** The name of a parameter is our own. */
const shapeOf = (name: string): string => name.replace(/\{\w+\}|:\w+/g, '{}');
const publicOperations = new Map(Object.entries(PUBLIC_OPERATIONS).map(([name, row]) => [shapeOf(name), row]));
const publicOperation = ({ method, path }: Route) => publicOperations.get(shapeOf(`${method} ${path}`));

function tagOf(route: Route): string {
  const row = publicOperation(route);
  if (row && 'feature' in row) return NOT_SERVED;
  const [noun = ''] = route.permission.split('.');
  return TAGS[noun] ?? `${noun[0]!.toUpperCase()}${noun.slice(1)}s`;
}

/** The errors that callers have to expect, by status; docs/errors.md has every one. */
function refusalsOf({ method, path, permission: name, schema }: Route): Refusals {
  const permission: Permission = PERMISSIONS[name];
  const changes = method !== 'GET';
  const all: readonly (readonly [boolean, number, string])[] = [
    [true, 400, 'The request is not valid; the message names the field'],
    [true, 401, 'There is no key, or it is not valid any more'],
    [changes || permission.role === 'admin' || permission.reveals === true, 403, 'The key does not allow that'],
    [path.includes(':') || Object.keys(permission.refused).length > 0, 404, 'It is not there, or not for this key'],
    [changes && schema.body !== undefined, 409, 'There is one of that name'],
    [changes && permission.scope !== 'account', 412, 'Something that it needs was not kept'],
    [changes, 422, 'It cannot be done as things are'],
    [changes && permission.scope === 'project', 423, 'Something else is being done; `operation_id` can be waited for'],
    [true, 429, 'Too many requests, where there is a limit'],
    [true, 503, 'The server is not ready, or its own database is away'],
  ];
  return all.filter(([expected]) => expected).map(([, status, description]) => [status, description]);
}

/** The answers that are refusals; none other are expected of what is not served. */
function refusedAnswers(route: Route): Record<string, unknown> {
  const row = publicOperation(route);
  const schema = { $ref: `#/components/schemas/${ERROR_SCHEMA}` };
  const answer = (description: string) => ({ description, content: { 'application/json': { schema } } });
  const answers = refusalsOf(route).map(([status, description]) => [
    status,
    { ...answer(description), ...(TO_BE_REPEATED.includes(status) && { headers: RETRY_AFTER }) },
  ]);
  if (row && 'feature' in row) {
    answers.push([row.answer === 'not_enabled' ? 404 : 501, answer(`Always: ${row.why}`)]);
  }
  return Object.fromEntries(answers);
}

function successes({ schema: { response } }: Route): Record<string, unknown> {
  const described = Object.entries(response).map(([status, schema]) => [
    status,
    { ...schema, description: SUCCESS[status] ?? 'Done' },
  ]);
  return Object.fromEntries(described);
}

function headersOf({ method, path, lines }: Route): Record<string, unknown> | undefined {
  const of = (description: string) => ({ type: 'string', description });
  const properties = {
    ...(method === 'POST' && { 'idempotency-key': of('The same key again is answered the same, for 24 hours') }),
    ...(method !== 'GET' && { prefer: of('`wait=30` answers when it is done, or after so many seconds') }),
    ...(lines && { accept: of('`application/x-ndjson` gives all as lines of JSON') }),
    ...(path === '/events' && {
      accept: of('`text/event-stream` tells everything from now on'),
      'last-event-id': of('Where to go on'),
    }),
  };
  return Object.keys(properties).length > 0 ? { type: 'object', properties } : undefined;
}

function describe(route: Route): FastifySchema {
  const row = publicOperation(route);
  const { response: _, ...input } = route.schema;
  const described = {
    ...input,
    summary: route.summary,
    operationId: `${route.method} ${route.path}`.toLowerCase().replace(/\W+/g, '_'),
    tags: [tagOf(route)],
    ...(row && 'how' in row && { description: `Against the public API: ${row.how}.` }),
    ...(!row && { description: 'An addition of Coppice.' }),
    headers: headersOf(route),
    response: successes(route),
  };
  return described as FastifySchema;
}

interface DescribedOperation {
  responses: Record<string, unknown>;
  requestBody?: { required?: boolean };
}

type Paths = Record<string, Record<string, DescribedOperation>>;

/** A body that may be left out is null to our schemas. */
const mayLackBody = ({ schema: { body } }: Route): boolean =>
  ((body as { anyOf?: { type?: string }[] } | undefined)?.anyOf ?? []).some(({ type }) => type === 'null');

/** What the schemas of a route do not say by themselves. */
function complete(paths: Paths, prefix: string, route: Route): void {
  const operation = paths[`${prefix}${route.path.replace(/:(\w+)/g, '{$1}')}`]![route.method.toLowerCase()]!;
  const row = publicOperation(route);
  const served = !(row && 'feature' in row);
  operation.responses = { ...(served && operation.responses), ...refusedAnswers(route) };
  if (operation.requestBody) operation.requestBody.required = !mayLackBody(route);
}

/** Says how the document is made of the routes that are served below `prefix`. */
export function openapiOptions(prefix: string): FastifyDynamicSwaggerOptions {
  const routes = new Map(ROUTES.map((route) => [`${route.method} ${prefix}${route.path}`, route]));
  const transform: SwaggerTransform = ({ schema, url, route }) => {
    const served = routes.get(`${route.method} ${url}`);
    return { url, schema: served ? describe(served) : schema };
  };
  const tags = [...new Set(ROUTES.map(tagOf))].filter((tag) => tag !== NOT_SERVED).sort();
  const notServed = 'Parts of the public API that are refused, in the words that its clients go on after';
  return {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Coppice API', version: 'v2', description: 'The management API of Coppice.' },
      components: {
        securitySchemes: {
          BearerAuth: { type: 'http', scheme: 'bearer' },
          Session: { type: 'apiKey', in: 'cookie', name: '__Host-coppice.session_token' },
        },
        schemas: { [ERROR_SCHEMA]: ErrorBody as object },
      },
      security: [{ BearerAuth: [] }, { Session: [] }],
      tags: [...tags.map((name) => ({ name })), { name: NOT_SERVED, description: notServed }],
    },
    transform,
    transformObject: (made) => {
      const document = 'openapiObject' in made ? made.openapiObject : made.swaggerObject;
      for (const route of ROUTES) complete(document.paths as Paths, prefix, route);
      return document;
    },
  };
}
