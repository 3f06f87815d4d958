import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ActionContext } from '../actions/context.ts';
import { CoppiceError } from '../domain/errors.ts';
import { LIMITS } from '../domain/limits.ts';
import {
  countIdempotencyKeys,
  type IdempotentRequest,
  type StoredAnswer,
  storeAnswer,
  takeIdempotencyKey,
} from '../store/idempotency-keys.ts';
import { asStore } from '../store/nested.ts';

interface Answer {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

const KEY = /^[\x21-\x7e]{1,255}$/;
/** SQLSTATE lock_not_available: the first request with the key has not ended in time. */
const LOCK_NOT_AVAILABLE = '55P03';

/**
 * Answers a request, and one with an `Idempotency-Key` once: whoever repeats it is answered what the first was. The change
 * and its answer are kept in one transaction, so that a process that is killed leaves both or neither. A refusal keeps
 * nothing. Throws `idempotency_key_reused` for another request under the same key.
 */
export async function answerOnce(
  context: ActionContext,
  { request, reply }: { request: FastifyRequest; reply: FastifyReply },
  handle: (context: ActionContext) => Promise<Answer>,
): Promise<Answer> {
  const key = request.headers['idempotency-key'];
  if (request.method !== 'POST' || key === undefined) return handle(context);
  if (typeof key !== 'string' || !KEY.test(key)) {
    const problem = 'must be 1 to 255 visible ASCII characters without spaces';
    throw new CoppiceError('invalid_request', { field: 'Idempotency-Key', problem });
  }
  const { key_id } = request.caller!;
  if (key_id === undefined) {
    throw new CoppiceError('invalid_request', { field: 'Idempotency-Key', problem: 'is for calls with an API key' });
  }
  const asked: IdempotentRequest = {
    api_key_id: key_id,
    key,
    request_hash: createHash('sha256')
      .update(JSON.stringify([request.url, request.body ?? null]))
      .digest(),
  };
  const { answer, repeated } = await inOneTransaction(context, asked, handle);
  if (repeated) reply.header('idempotency-replayed', 'true');
  return answer;
}

async function inOneTransaction(
  context: ActionContext,
  asked: IdempotentRequest,
  handle: (context: ActionContext) => Promise<Answer>,
): Promise<{ answer: Answer; repeated: boolean }> {
  const { store, vault } = context;
  return store.transaction().execute(async (trx) => {
    const known = await takeIdempotencyKey(trx, asked).catch((error) => {
      if (error.code === LOCK_NOT_AVAILABLE) throw new CoppiceError('idempotency_key_busy');
      throw error;
    });
    if (known) return { answer: openAnswer(context, asked, known), repeated: true };
    const most = LIMITS.idempotency_keys_per_api_key;
    if ((await countIdempotencyKeys(trx, asked.api_key_id, most + 1)) > most) {
      throw new CoppiceError('idempotency_keys_exceeded', { limit: most });
    }
    const answer = await handle({ ...context, store: asStore(trx) });
    const sealed_answer = vault.seal(JSON.stringify(answer.body), sealContext(asked));
    await storeAnswer(trx, asked, { status: answer.status, sealed_answer });
    return { answer, repeated: false };
  });
}

/** What a sealed answer is bound to. */
const sealContext = ({ api_key_id, key }: IdempotentRequest): string => `answer:${api_key_id}:${key}`;

function openAnswer({ vault }: ActionContext, asked: IdempotentRequest, known: StoredAnswer): Answer {
  if (!known.request_hash.equals(asked.request_hash)) throw new CoppiceError('idempotency_key_reused');
  return { status: known.status, body: JSON.parse(vault.open(known.sealed_answer, sealContext(asked))) };
}
