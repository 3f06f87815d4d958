import type { Duplex } from 'node:stream';
import { CoppiceError } from '../domain/errors.ts';
import { LIMITS } from '../domain/limits.ts';
import type { SchemaReader, SchemaSource } from '../domain/schema.ts';
import { WakeError, type Waker } from '../gateway/contract.ts';
import { SCHEMA_READER } from '../postgres/access.ts';
import { diffSchemas } from '../postgres/schema-diff.ts';
import { dumpSchema, SchemaUnreadable } from '../postgres/schema-dump.ts';
import { readSchemaFindings } from '../postgres/schema-findings.ts';
import { ensureSchemaReader } from '../postgres/schema-reader.ts';
import { readSchemaTables } from '../postgres/schema-tables.ts';
import { openSession } from '../postgres/session.ts';
import { createReadingTurns } from './reading-turns.ts';

type Dial = () => Promise<Duplex>;

/** Postgres's words for "there is no such database". */
const NO_DATABASE = /^database ".*" does not exist$/s;
const INVALID_CATALOG_NAME = '3D000';

/** Reads schemas from the computes of endpoints, over the way that the gateway goes: wake, then dial. */
export function createSchemaReader(waker: Waker): SchemaReader {
  const turns = createReadingTurns({
    waiting_max: LIMITS.schema_readings_waiting,
    readings_max: LIMITS.schema_readings,
  });
  const read = <T>(source: SchemaSource, use: (dial: Dial, major: number, signal: AbortSignal) => Promise<T>) => {
    const signal = AbortSignal.timeout(LIMITS.schema_timeout_ms);
    return turns
      .take(source.project_id, signal, async () => {
        const dial = () => reach(waker, source.endpoint_id, signal);
        return use(dial, await prepare(dial), signal);
      })
      .catch((error) => {
        throw forCaller(error, source, signal);
      });
  };
  return {
    sql: (source) =>
      read(source, (dial, major, signal) => {
        const { database } = source;
        return dumpSchema(dial, { database, major, form: 'plain', signal, limit_bytes: LIMITS.schema_bytes });
      }),
    tables: (source) =>
      read(source, async (dial) => {
        await using session = await openSession(dial, { database: source.database, user: SCHEMA_READER });
        return await readSchemaTables(session);
      }),
    findings: (source) =>
      read(source, async (dial) => {
        await using session = await openSession(dial, { database: source.database, user: SCHEMA_READER });
        return await readSchemaFindings(session);
      }),
    diff: ({ database, base, schema }) =>
      diffSchemas({ name: database, base, schema }, AbortSignal.timeout(LIMITS.schema_timeout_ms)),
  };
}

/** A stream to the endpoint's server, which is woken where it sleeps. */
async function reach(waker: Waker, endpoint_id: string, signal: AbortSignal): Promise<Duplex> {
  for (;;) {
    signal.throwIfAborted();
    const stream = await waker.dial(endpoint_id);
    if (stream) return stream;
    await waker.wake(endpoint_id, signal);
  }
}

/** Sees to the role that reads. Returns the server's major version. */
async function prepare(dial: Dial): Promise<number> {
  await using session = await openSession(dial, { database: 'postgres' });
  await ensureSchemaReader(session);
  const { rows } = await session.query("SELECT current_setting('server_version_num')::int / 10000 AS major");
  return rows[0].major;
}

function forCaller(error: Error & { code?: string }, source: SchemaSource, signal: AbortSignal): Error {
  const { branch_id, database } = source;
  const unreadable = (reason: string) =>
    new CoppiceError('schema_unreadable', { reason, branch_id, database }, { cause: error });
  if (error.code === INVALID_CATALOG_NAME || (error instanceof SchemaUnreadable && NO_DATABASE.test(error.message))) {
    return new CoppiceError('not_found', { noun: 'database' });
  }
  if (error instanceof SchemaUnreadable) return unreadable(error.message);
  if (signal.aborted) return unreadable(`it took longer than ${LIMITS.schema_timeout_ms / 1000} seconds`);
  if (error instanceof WakeError) return new CoppiceError('unavailable', {}, { cause: error });
  return error;
}
