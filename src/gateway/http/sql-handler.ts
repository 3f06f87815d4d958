import type { IncomingMessage, ServerResponse } from 'node:http';
import type { EndpointId } from '../../domain/ids.ts';
import { LIMITS } from '../../domain/limits.ts';
import { type ByteBudget, byteBudget } from '../byte-budget.ts';
import { type ConnectionRecord, type GatewayLogger, logRecord, newRecord, recordError } from '../connection-record.ts';
import type { Connections } from '../connections.ts';
import { peerOf } from '../peer.ts';
import { refusals } from '../refusal.ts';
import { type SqlContext, serveSql } from './serve-sql.ts';
import { ANY_ORIGIN, sendRefusal } from './sql-answer.ts';

/** Answers a request. False when its path is none of ours. */
export type SqlHandler = (request: IncomingMessage, response: ServerResponse) => boolean;

const PATH = '/sql';
const METHODS = 'OPTIONS, POST';
const ALLOWED_HEADERS = [
  'Authorization',
  'Content-Type',
  'Neon-Connection-String',
  'Neon-Raw-Text-Output',
  'Neon-Array-Mode',
  'Neon-Pool-Opt-In',
  'Neon-Batch-Isolation-Level',
  'Neon-Batch-Read-Only',
  'Neon-Batch-Deferrable',
].join(', ');
const PREFLIGHT_HEADERS = {
  ...ANY_ORIGIN,
  allow: METHODS,
  'access-control-allow-methods': METHODS,
  'access-control-allow-headers': ALLOWED_HEADERS,
  'access-control-max-age': '86400',
  'content-length': '0',
};

/** What answers to requests have in common. */
interface SqlDoor {
  readonly connections: Connections;
  readonly context: Omit<SqlContext, 'budget' | 'onAuthenticated'>;
  readonly logger: GatewayLogger;
  /** Hears of the end of every request that reached a server. */
  readonly onSessionEnd: ((record: Readonly<ConnectionRecord>) => void) | undefined;
}

/** What comes to `/sql`: statements by POST, and the questions of browsers whether they may send any. */
export function sqlHandler(door: SqlDoor): SqlHandler {
  const budget = byteBudget(LIMITS.sql_held_bytes);
  return (request, response) => {
    if (request.url!.split('?', 1)[0] !== PATH) return false;
    if (request.method === 'POST') door.connections.track(answer(request, response, budget, door));
    else if (request.method === 'OPTIONS') response.writeHead(200, PREFLIGHT_HEADERS).end();
    else {
      response.setHeader('allow', METHODS);
      void sendRefusal(response, refusals.methodNotAllowed(request.method!), '', LIMITS.flush_timeout_ms);
    }
    return true;
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  budget: ByteBudget,
  { connections, context, logger, onSessionEnd }: SqlDoor,
): Promise<void> {
  const started = performance.now();
  const record = newRecord(peerOf(request.socket), 'http');
  const admission = connections.admit(record);
  if (admission === 'dropped') return void response.destroy();
  if (admission === 'refused') {
    const refusal = refusals.tooManyUnauthenticated();
    recordError(record, refusal);
    await sendRefusal(response, refusal, record.session_id, LIMITS.flush_timeout_ms);
  } else {
    const onAuthenticated = (id: EndpointId) => connections.authenticated(record, id);
    await serveSql(request, response, record, { ...context, budget, onAuthenticated });
  }
  connections.ended(record);
  record.total_ms = performance.now() - started;
  // A line for each query would be too many; what a statement did wrong is its sender's to know.
  if (record.error_message !== undefined) logRecord(logger, record);
  if (record.connected) onSessionEnd?.(record);
}
