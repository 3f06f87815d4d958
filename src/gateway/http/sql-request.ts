import type { IncomingHttpHeaders } from 'node:http';
import { PARAMETERS_MAX, type TextStatement } from '../../wire/extended-query.ts';
import { Refusal } from '../refusal.ts';
import { parameterText } from './parameter-text.ts';

/** What the headers of a request ask for, besides who sends it. */
export interface SqlOptions {
  /** Values are the server's text; else numbers, booleans, JSON and arrays of them become JSON. */
  readonly raw_text: boolean;
  /** Rows are arrays; a statement may say otherwise. */
  readonly array_mode: boolean;
  /** How the transaction of a batch begins. */
  readonly begin: string;
  /** Headers that repeat what was applied to a batch. */
  readonly applied: Readonly<Record<string, string>>;
}

export interface SqlStatement extends TextStatement {
  readonly array_mode: boolean;
}

export interface SqlRequest {
  /** Several statements, in one transaction. */
  readonly batch: boolean;
  readonly statements: readonly SqlStatement[];
}

const ISOLATION_LEVELS: Readonly<Record<string, string>> = {
  ReadUncommitted: 'READ UNCOMMITTED',
  ReadCommitted: 'READ COMMITTED',
  RepeatableRead: 'REPEATABLE READ',
  Serializable: 'SERIALIZABLE',
};

const malformed = (message: string) => new Refusal('user', '08P01', message);

/** Reads the headers. Throws a Refusal. */
export function readSqlOptions(headers: IncomingHttpHeaders): SqlOptions {
  const isTrue = (name: string) => headers[name] === 'true';
  const level = headers['neon-batch-isolation-level'];
  const applied: Record<string, string> = {};
  let begin = 'BEGIN';
  if (level !== undefined) {
    const words = Object.hasOwn(ISOLATION_LEVELS, String(level)) ? ISOLATION_LEVELS[String(level)] : undefined;
    if (!words) {
      const known = Object.keys(ISOLATION_LEVELS).join(', ');
      throw malformed(`unknown Neon-Batch-Isolation-Level; known are ${known}`);
    }
    begin += ` ISOLATION LEVEL ${words}`;
    applied['neon-batch-isolation-level'] = String(level);
  }
  for (const [name, words] of [
    ['neon-batch-read-only', ' READ ONLY'],
    ['neon-batch-deferrable', ' DEFERRABLE'],
  ] as const) {
    if (!isTrue(name)) continue;
    begin += words;
    applied[name] = 'true';
  }
  return { raw_text: isTrue('neon-raw-text-output'), array_mode: isTrue('neon-array-mode'), begin, applied };
}

/** Reads a body, whatever its content type says. Throws a Refusal that says what is wrong where. */
export function readSqlRequest(body: string, { array_mode }: SqlOptions): SqlRequest {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    throw malformed('the body is not JSON');
  }
  if (!isObject(parsed)) throw malformed('the body must be an object with `query`, or with `queries`');
  const { queries } = parsed;
  if (queries === undefined) return { batch: false, statements: [readStatement(parsed, '', array_mode)] };
  if (!Array.isArray(queries)) throw malformed('`queries` must be an array');
  const statements = queries.map((item, at) => {
    if (!isObject(item)) throw malformed(`queries[${at}] must be an object`);
    return readStatement(item, `queries[${at}].`, array_mode);
  });
  return { batch: true, statements };
}

function readStatement(item: Record<string, unknown>, place: string, array_mode: boolean): SqlStatement {
  const { query, params = [], arrayMode = array_mode } = item;
  if (typeof query !== 'string') throw malformed(`\`${place}query\` must be a string`);
  if (query.includes('\0')) throw new Refusal('user', '22021', `\`${place}query\` holds a zero character`);
  if (!Array.isArray(params)) throw malformed(`\`${place}params\` must be an array`);
  if (params.length > PARAMETERS_MAX) throw malformed(`\`${place}params\` has more than ${PARAMETERS_MAX} elements`);
  if (typeof arrayMode !== 'boolean') throw malformed(`\`${place}arrayMode\` must be a boolean`);
  return { sql: query, parameters: parameterTexts(params, place), array_mode: arrayMode };
}

function parameterTexts(params: readonly unknown[], place: string): (string | null)[] {
  try {
    return params.map(parameterText);
  } catch (error) {
    if (error instanceof RangeError) throw malformed(`\`${place}params\` are nested too deeply`);
    throw error;
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
