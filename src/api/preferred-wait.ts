import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ActionContext } from '../actions/context.ts';
import type { OperationWaits } from '../actions/operation-waits.ts';
import { LIMITS } from '../domain/limits.ts';
import { findBranchEvenDeleted } from '../store/branches.ts';
import { findEndpoint } from '../store/endpoints.ts';
import { serializeBranch } from './serializers/branch.ts';
import { serializeEndpoint } from './serializers/endpoint.ts';
import { serializeOperation } from './serializers/operation.ts';
import { whenGone } from './when-gone.ts';

/** What answers of changes have in common. */
interface ChangeAnswer {
  readonly operations: readonly { readonly id: string }[];
  readonly branch?: { readonly id: string };
  readonly endpoint?: { readonly id: string };
  readonly endpoints?: readonly { readonly id: string }[];
}

/** RFC 7240: a list of preferences, each with an optional value and parameters. */
const WAIT = /(?:^|,)\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:;[^,]*)?(?=,|$)/i;

/** Seconds that a `Prefer` header asks to wait at most; undefined when it does not. */
function preferredWaitSeconds(header: string | string[] | undefined): number | undefined {
  const text = WAIT.exec(Array.isArray(header) ? header.join(',') : (header ?? ''))?.[1];
  return text === undefined ? undefined : Math.min(Number(text), LIMITS.wait_seconds_max);
}

/**
 * The answer to a change, held back until the operations in it have ended or the time of `Prefer: wait=<seconds>` is over,
 * and then as things are by then. The change is made whatever becomes of the wait: where none is possible the answer is the
 * one that there was, without `Preference-Applied`.
 */
export async function withPreferredWait(
  context: ActionContext,
  waits: OperationWaits,
  { request, reply, body }: { request: FastifyRequest; reply: FastifyReply; body: unknown },
): Promise<unknown> {
  const seconds = preferredWaitSeconds(request.headers.prefer);
  if (seconds === undefined || !isChangeAnswer(body) || waits.full) return body;
  try {
    const ids = body.operations.map(({ id }) => id);
    const rows = await waits.untilEnded(ids, { timeout_ms: seconds * 1000, gone: whenGone(reply) });
    const now = await asItIsNow(context, body);
    reply.header('preference-applied', `wait=${seconds}`);
    return { ...now, operations: rows.map(serializeOperation) };
  } catch (error) {
    request.log.warn({ err: error }, 'a caller was answered without the wait that it asked for');
    return body;
  }
}

function isChangeAnswer(body: unknown): body is ChangeAnswer {
  return typeof body === 'object' && body !== null && 'operations' in body && Array.isArray(body.operations);
}

/** What an operation changes by its end: the states of the branch and of the endpoints. */
async function asItIsNow(context: ActionContext, body: ChangeAnswer): Promise<ChangeAnswer> {
  const { store, installation } = context;
  const endpointNow = async (shown: { readonly id: string }) => {
    const row = await findEndpoint(store, shown.id);
    return row ? serializeEndpoint(row, installation) : shown;
  };
  const branch = body.branch && serializeBranch(await findBranchEvenDeleted(store, body.branch.id));
  const endpoint = body.endpoint && (await endpointNow(body.endpoint));
  const endpoints = body.endpoints && (await Promise.all(body.endpoints.map(endpointNow)));
  return { ...body, ...(branch && { branch }), ...(endpoint && { endpoint }), ...(endpoints && { endpoints }) };
}
