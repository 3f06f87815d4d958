import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { CoppiceError, ERRORS } from '../domain/errors.ts';
import type { OperationId } from '../domain/ids.ts';
import { LIMITS } from '../domain/limits.ts';

/** How long a caller should wait before it asks again for something that is locked or not ready. */
const RETRY_AFTER_SECONDS = 2;

/** What the framework throws for requests that it cannot read, by its code. */
function fromFramework(error: FastifyError, request: FastifyRequest): CoppiceError | undefined {
  switch (error.code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new CoppiceError('unsupported_media_type', { content_type: request.headers['content-type'] ?? '' });
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new CoppiceError('body_too_large', { limit_bytes: LIMITS.request_body_bytes });
    case 'FST_ERR_CTP_INVALID_JSON_BODY':
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return new CoppiceError('invalid_json');
    case 'FST_ERR_BAD_URL':
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return new CoppiceError('route_not_found');
    default:
      return undefined;
  }
}

/**
 * Our own database serves nobody for a while: the connection broke, it is starting or stopping, it has no room or no time
 * for a statement (53, 57014, 55P03), or it takes no changes (25006).
 */
function storeIsAway(error: NodeJS.ErrnoException): boolean {
  const { code = '', syscall, message } = error;
  if (/^(08|53|57P|57014|55P03|25006)/.test(code) || syscall === 'connect') return true;
  if (code === 'ECONNRESET' || code === 'EPIPE') return true;
  return /^(Connection terminated|Client has encountered a connection error|timeout exceeded when trying)/.test(
    message,
  );
}

/**
 * Answers with the one error body. What is not meant for the caller is logged and shown as `internal`.
 *
 * @param operation_id what the caller may wait for before it asks again
 */
export function sendError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  operation_id?: OperationId,
): FastifyReply {
  let shown = error instanceof CoppiceError ? error : fromFramework(error as FastifyError, request);
  if (!shown && storeIsAway(error as Error)) {
    request.log.warn({ reason: (error as Error).message }, 'our own database is away');
    shown = new CoppiceError('unavailable');
  }
  if (!shown) {
    request.log.error({ err: error }, 'a request failed for a reason that is not the caller’s');
    shown = new CoppiceError('internal');
  }
  if (shown.status === 423 || shown.status === 503) reply.header('retry-after', RETRY_AFTER_SECONDS);
  // The code is the table's: the framework writes one of its own into errors that validation throws.
  return reply
    .code(ERRORS[shown.kind].status)
    .type('application/json; charset=utf-8')
    .send(
      JSON.stringify({ request_id: request.id, code: ERRORS[shown.kind].code, message: shown.message, operation_id }),
    );
}

/** What the HTTP parser could not make a request of, by its code. */
const UNREADABLE: Readonly<Record<string, readonly [status: number, reason: string, message: string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout', 'the request did not arrive in time'],
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large', 'the request headers are too large'],
};

/** Answers bytes that are no HTTP request in the shape of every other error, and closes. */
export function answerUnreadable(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const [status, reason, message] = UNREADABLE[error.code ?? ''] ?? [400, 'Bad Request', 'the request is not HTTP'];
  const body = JSON.stringify({ request_id: randomUUID(), code: '', message });
  socket.end(
    `HTTP/1.1 ${status} ${reason}\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}
