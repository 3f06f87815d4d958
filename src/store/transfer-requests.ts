import { sql } from 'kysely';
import type { ProjectId, UserId } from '../domain/ids.ts';
import type { StoreTransaction } from './connection.ts';
import type { TransferRequestRow } from './schema.ts';

/** Writes a request that is good for so many seconds; those of the project that have expired are gone with it. */
export async function insertTransferRequest(
  trx: StoreTransaction,
  request: { project_id: ProjectId; created_by: UserId | null; ttl_seconds: number },
): Promise<TransferRequestRow> {
  const { project_id, created_by, ttl_seconds } = request;
  await sql`delete from transfer_requests where project_id = ${project_id} and expires_at <= now()`.execute(trx);
  const { rows } = await sql<TransferRequestRow>`
    insert into transfer_requests (project_id, created_by, expires_at)
    values (${project_id}, ${created_by}, now() + make_interval(secs => ${ttl_seconds}))
    returning *`.execute(trx);
  return rows[0]!;
}

export async function countTransferRequests(trx: StoreTransaction, project_id: ProjectId): Promise<number> {
  const { count } = await trx
    .selectFrom('transfer_requests')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('project_id', '=', project_id)
    .executeTakeFirstOrThrow();
  return count;
}

/**
 * Whether the project has a request of that id that has not expired.
 *
 * @param id a UUID
 */
export async function hasTransferRequest(trx: StoreTransaction, project_id: ProjectId, id: string): Promise<boolean> {
  const { rows } = await sql`
    select from transfer_requests
    where id = ${id} and project_id = ${project_id} and expires_at > now()`.execute(trx);
  return rows.length > 0;
}

/** Nobody takes the project by a request from before. */
export async function deleteTransferRequests(trx: StoreTransaction, project_id: ProjectId): Promise<void> {
  await trx.deleteFrom('transfer_requests').where('project_id', '=', project_id).execute();
}
