import type { FastifyInstance, FastifyRequest, FastifySchemaCompiler } from 'fastify';
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import type { TLocalizedValidationError } from 'typebox/error';
import { CoppiceError } from '../domain/errors.ts';

/**
 * Compiles a schema into a check. Texts of the query and of the path become numbers and booleans where the schema asks
 * for them; bodies are taken as they are. Unknown fields are left alone.
 */
export const validatorCompiler: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const check = Compile(schema);
  const fromText = httpPart !== 'body';
  return (value) => {
    if (fromText) convertTexts(schema, value as Record<string, unknown>);
    if (check.Check(value)) return { value };
    return { error: invalidRequest(check.Errors(value), httpPart ?? 'body') };
  };
};

function convertTexts(schema: TSchema, value: Record<string, unknown>): void {
  const properties = (schema as { properties?: Record<string, { type?: string }> }).properties ?? {};
  for (const [name, { type }] of Object.entries(properties)) {
    const text = value[name];
    if (typeof text !== 'string') continue;
    if ((type === 'integer' || type === 'number') && /^-?\d{1,15}$/.test(text)) value[name] = Number(text);
    else if (type === 'boolean' && (text === 'true' || text === 'false')) value[name] = text === 'true';
  }
}

/** Of the errors of a union's branches the deepest tells most. */
function invalidRequest(errors: TLocalizedValidationError[], part: string): CoppiceError {
  const depth = (path: string) => path.split('/').length;
  const error = errors.toSorted((a, b) => depth(b.instancePath) - depth(a.instancePath))[0];
  const field = (error?.instancePath ?? '').slice(1).replaceAll('/', '.') || (part === 'querystring' ? 'query' : part);
  return new CoppiceError('invalid_request', { field, problem: problem(error) });
}

function problem(error: TLocalizedValidationError | undefined): string {
  if (!error) return 'is not allowed';
  if (error.keyword === 'enum') return `must be one of ${error.params.allowedValues.map(String).join(', ')}`;
  if (error.keyword === 'pattern') return `must match ${error.params.pattern}`;
  return error.message;
}

/** `\\u0000` in JSON text, not preceded by a backslash that escapes the first one. */
const ZERO_CHARACTER = /(?<!\\)(?:\\\\)*\\u0000/;

/**
 * Reads JSON bodies. An empty one is no body, whatever the header says it is: HTTP clients name a type of their own for a POST
 * without a body, the one of the public API client among them. A zero character is refused here, since no text
 * of ours may hold one and the store cannot.
 */
export function addJsonParser(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  const parse = app.getDefaultJsonParser('error', 'error');
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, text, done) => {
    if (text === '') return done(null, undefined);
    if (ZERO_CHARACTER.test(text as string)) {
      return done(new CoppiceError('invalid_request', { field: 'body', problem: 'must not contain a zero character' }));
    }
    return parse(request, text as string, (error, body) => done(error && new CoppiceError('invalid_json'), body));
  });
  app.addContentTypeParser('*', async ({ headers }: FastifyRequest) => {
    if (headers['content-length'] === '0' && headers['transfer-encoding'] === undefined) return undefined;
    throw new CoppiceError('unsupported_media_type', { content_type: headers['content-type'] ?? '' });
  });
}
