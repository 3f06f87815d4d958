import type { ServerResponse } from 'node:http';
import type { ComputeRefusal, Refusal } from '../refusal.ts';
import { refusalError } from './sql-error.ts';

/** An answer that is ready to be sent: JSON in pieces. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: readonly Buffer[];
}

/** Pages of every origin may ask: what lets them in is in the request, and no browser adds it by itself. */
export const ANY_ORIGIN = { 'access-control-allow-origin': '*' };

const FIXED_HEADERS = {
  ...ANY_ORIGIN,
  'access-control-expose-headers':
    'Neon-Request-Id, Neon-Batch-Isolation-Level, Neon-Batch-Read-Only, Neon-Batch-Deferrable',
  'cache-control': 'no-store',
  'content-type': 'application/json',
};

/**
 * Sends an answer. Resolves when the client has it, has gone, or took longer than `timeout_ms` to take it.
 *
 * @param request_id by which a person finds the line in the log
 */
export async function sendAnswer(
  response: ServerResponse,
  { status, headers, body }: Answer,
  request_id: string,
  timeout_ms: number,
): Promise<void> {
  if (response.destroyed) return;
  const length = body.reduce((total, piece) => total + piece.length, 0);
  response.writeHead(status, {
    ...FIXED_HEADERS,
    ...headers,
    'content-length': length,
    'neon-request-id': request_id,
  });
  const timer = setTimeout(() => response.destroy(), timeout_ms);
  const closed = new Promise<void>((resolve) => response.once('close', resolve));
  for (const piece of body.slice(0, -1)) response.write(piece);
  response.end(body.at(-1));
  await closed;
  clearTimeout(timer);
}

export async function sendRefusal(
  response: ServerResponse,
  refusal: Refusal | ComputeRefusal,
  request_id: string,
  timeout_ms: number,
): Promise<void> {
  const { status, body } = refusalError(refusal);
  await sendAnswer(response, { status, headers: {}, body: [Buffer.from(body)] }, request_id, timeout_ms);
}
