import { sql } from 'kysely';
import { LIMITS } from '../domain/limits.ts';
import type { Store, StoreTransaction } from './connection.ts';

/** What a key was used for. */
export interface IdempotentRequest {
  readonly api_key_id: number;
  readonly key: string;
  /** SHA-256. */
  readonly request_hash: Buffer;
}

export interface StoredAnswer {
  readonly request_hash: Buffer;
  readonly status: number;
  readonly sealed_answer: Buffer;
}

/**
 * Takes a key for the transaction, which then has to say what came of it. Undefined when it was taken; else what was
 * answered under it. Waits for another transaction that has taken it meanwhile, in whatever process.
 */
export async function takeIdempotencyKey(
  trx: StoreTransaction,
  { api_key_id, key, request_hash }: IdempotentRequest,
): Promise<StoredAnswer | undefined> {
  const kept = sql`now() - ${LIMITS.idempotency_keys_kept_ms}::bigint * interval '1 millisecond'`;
  const { rows } = await sql`
    insert into idempotency_keys (api_key_id, key, request_hash) values (${api_key_id}, ${key}, ${request_hash})
    on conflict (api_key_id, key) do update
      set request_hash = excluded.request_hash, status = null, sealed_answer = null, created_at = now()
      where idempotency_keys.created_at < ${kept}
    returning key`.execute(trx);
  if (rows.length > 0) return undefined;
  return trx
    .selectFrom('idempotency_keys')
    .select(['request_hash', 'status', 'sealed_answer'])
    .where('api_key_id', '=', api_key_id)
    .where('key', '=', key)
    .$narrowType<{ status: number; sealed_answer: Buffer }>()
    .executeTakeFirstOrThrow();
}

/** Keeps what is answered, to be answered again. */
export async function storeAnswer(
  trx: StoreTransaction,
  { api_key_id, key }: IdempotentRequest,
  answer: Omit<StoredAnswer, 'request_hash'>,
): Promise<void> {
  await trx
    .updateTable('idempotency_keys')
    .set(answer)
    .where('api_key_id', '=', api_key_id)
    .where('key', '=', key)
    .execute();
}

/** How many keys a caller has in use, counted up to `most`. */
export async function countIdempotencyKeys(store: Store, api_key_id: number, most: number): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from (select from idempotency_keys where api_key_id = ${api_key_id} limit ${most}) keys`.execute(
    store,
  );
  return rows[0]!.count;
}

/** Forgets keys from before a time, `most` at once. */
export async function forgetIdempotencyKeys(store: Store, before: Date, most: number): Promise<void> {
  await sql`
    delete from idempotency_keys where (api_key_id, key) in (
      select api_key_id, key from idempotency_keys where created_at < ${before} order by created_at limit ${most}
    )`.execute(store);
}
