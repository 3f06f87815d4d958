import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Ajv, type ValidateFunction } from 'ajv';
import addFormats from 'ajv-formats';
import { parse } from 'yaml';

/** The public OpenAPI file, as it ships in the public API client: what our answers are held against. */

interface Operation {
  readonly responses: Record<string, unknown>;
  readonly parameters?: readonly unknown[];
  readonly requestBody?: { readonly required?: boolean; readonly content: Record<string, { schema: unknown }> };
}

/** What the file says of a value, as far as requests need it. */
export interface PublicSchema {
  readonly type?: string;
  readonly format?: string;
  readonly pattern?: string;
  readonly enum?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly items?: unknown;
  readonly properties?: Readonly<Record<string, unknown>>;
  readonly required?: readonly string[];
}

interface PublicParameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly schema: unknown;
}

/** An operation of the public API, and what a request of it may hold. */
export interface PublicRequest {
  /** Method and path as in the file: `GET /projects/{project_id}`. */
  readonly name: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly query: readonly PublicParameter[];
  readonly body: { readonly required: boolean; readonly schema: unknown } | undefined;
}

const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const;
const PREFIX = '/api/v2';
const SCHEMA_ID = 'public';
/** Routes that the public API does not have; their answers are written by schemas of ours. */
const OURS = [
  /\/webhooks(\/|$)/,
  /\/v2\/events$/,
  /\/invitations\/[^/]+$/,
  /\/endpoints\/[^/]+\/connections$/,
  /\/branches\/[^/]+\/renew_lease$/,
  /\/audit_log$/,
];

const file = join(
  dirname(fileURLToPath(import.meta.resolve('@neondatabase/api-client'))),
  '../public-v2-for-users.gen.yaml',
);
const document = parse(readFileSync(file, 'utf8'), { merge: true, maxAliasCount: -1 }) as {
  paths: Record<string, Record<string, Operation>>;
};

const ajv = new Ajv({ strict: false, allErrors: true });
(addFormats as unknown as (ajv: Ajv) => void)(ajv);
ajv.addFormat('uint64', { type: 'number', validate: (value: number) => Number.isSafeInteger(value) && value >= 0 });
ajv.addFormat('int', { type: 'number', validate: Number.isSafeInteger });
ajv.addSchema(document, SCHEMA_ID);

const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  METHODS.filter((method) => method in item).map((method) => ({
    method: method.toUpperCase(),
    path,
    /** The more of a path is literal, the better it describes a request. */
    literals: path.split('/').filter((part) => !part.startsWith('{')).length,
    pattern: new RegExp(`^${PREFIX}${path.replace(/\{\w+\}/g, '[^/]+')}$`),
    operation: item[method]!,
  })),
);

/** Every operation of the file, in its order. */
export function publicRequests(): PublicRequest[] {
  return operations.map(({ method, path, operation }) => {
    const shared = (document.paths[path] as { parameters?: readonly unknown[] }).parameters ?? [];
    const parameters = [...shared, ...(operation.parameters ?? [])].map(
      (parameter) => locate(parameter, '').value as unknown as PublicParameter,
    );
    const body = operation.requestBody?.content['application/json'];
    return {
      name: `${method} ${path}`,
      method: method as PublicRequest['method'],
      path,
      query: parameters.filter((parameter) => parameter.in === 'query'),
      body: body && { required: operation.requestBody?.required === true, schema: body.schema },
    };
  });
}

/** A schema without references and with its parts put together. */
export function readPublicSchema(schema: unknown): PublicSchema {
  const found = locate(schema, '').value as PublicSchema & { allOf?: unknown[] };
  const parts = [...(found.allOf ?? []).map(readPublicSchema), found];
  return Object.assign({}, ...parts, {
    properties: Object.assign({}, ...parts.map(({ properties }) => properties)),
    required: parts.flatMap(({ required = [] }) => required),
  });
}

const compiled = new Map<string, ValidateFunction>();

/** Follows a reference within the file; the place is kept, since the validator compiles by place. */
function locate(value: unknown, place: string): { value: Record<string, unknown>; place: string } {
  const reference = (value as { $ref?: string } | undefined)?.$ref;
  if (!reference) return { value: value as Record<string, unknown>, place };
  let found: unknown = document;
  for (const part of reference.slice(2).split('/')) {
    found = (found as Record<string, unknown>)[part.replaceAll('~1', '/').replaceAll('~0', '~')];
  }
  return locate(found, reference);
}

const pointer = (...parts: string[]) =>
  parts.map((part) => `/${part.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');

export interface Answer {
  readonly method: string;
  /** Path, with or without a query. */
  readonly url: string;
  readonly status: number;
  /** Parsed JSON; undefined without a body. */
  readonly body: unknown;
}

/**
 * Fails when an answer is not one that the public file allows: an unknown route or status, a missing or malformed
 * field. Errors have one shape everywhere. Paths outside the management API are not looked at.
 */
export function assertInContract({ method, url, status, body }: Answer): void {
  const path = url.split('?', 1)[0]!;
  if (!path.startsWith(`${PREFIX}/`) || path === `${PREFIX}/openapi.json` || method === 'OPTIONS') return;
  const what = `${method} ${path} -> ${status}`;
  if (status >= 400) {
    assertError(what, body);
    return;
  }
  if (OURS.some((ours) => ours.test(path))) return;
  const found = operations
    .filter((candidate) => candidate.method === method && candidate.pattern.test(path))
    .sort((a, b) => b.literals - a.literals)[0];
  assert.ok(found, `${what}: the public API has no such route`);
  // A branch that was there already, which callers of our own field may get, looks like one that was made.
  const like = status === 200 && method === 'POST' && path.endsWith('/branches') ? 201 : status;
  const response = found.operation.responses[like];
  assert.ok(response, `${what}: the public API never answers with this status here`);
  const { value, place } = locate(
    response,
    `#${pointer('paths', found.path, method.toLowerCase(), 'responses', String(like))}`,
  );
  const content = value.content as Record<string, { schema: unknown }> | undefined;
  if (content) assertSchema(what, `${place}${pointer('content', 'application/json', 'schema')}`, body);
  else assert.equal(body, undefined, `${what}: must have no body`);
}

function assertError(what: string, body: unknown): void {
  assertSchema(what, '#/components/schemas/GeneralError', body);
  const { request_id, message } = body as { request_id?: string; message: string };
  assert.ok(request_id, `${what}: an error names its request`);
  assert.doesNotMatch(message, /\n\s+at |node_modules|\.ts:\d/, `${what}: an error shows no stack`);
}

function assertSchema(what: string, place: string, body: unknown): void {
  const key = `${SCHEMA_ID}${encodeURI(place)}`;
  let validate = compiled.get(key);
  if (!validate) {
    validate = ajv.compile({ $ref: key });
    compiled.set(key, validate);
  }
  if (validate(body)) return;
  const errors = (validate.errors ?? []).map((error) => `  ${error.instancePath || '/'} ${error.message}`).join('\n');
  assert.fail(`${what}: the body is not what the public API answers:\n${errors}\n${JSON.stringify(body, null, 2)}`);
}
