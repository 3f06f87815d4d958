import { CoppiceError } from '../domain/errors.ts';
import { coalesced } from './coalesced.ts';
import type { StoreTransaction } from './connection.ts';
import type { ProjectRow } from './schema.ts';

/** A project that is not deleted. */
export const findProject = coalesced<string, ProjectRow>(async (store, ids) => {
  const rows = await store
    .selectFrom('projects')
    .selectAll()
    .where('id', 'in', ids)
    .where('deleted_at', 'is', null)
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
});

/**
 * Locks the project until the transaction ends and returns it as it is now. Every change below a project begins with
 * this: what is read afterwards stays true. Throws `not_found` when it was deleted meanwhile.
 */
export async function lockLiveProject(trx: StoreTransaction, id: string): Promise<ProjectRow> {
  const row = await trx
    .selectFrom('projects')
    .selectAll()
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .forNoKeyUpdate()
    .executeTakeFirst();
  if (!row) throw new CoppiceError('not_found', { noun: 'project' });
  return row;
}
