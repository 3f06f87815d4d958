import { sql } from 'kysely';
import type { OrganizationId } from '../domain/ids.ts';
import { anyOf } from './any-of.ts';
import { coalesced } from './coalesced.ts';
import type { Store, StoreTransaction } from './connection.ts';
import type { OrganizationRow } from './schema.ts';

export const findOrganization = coalesced<string, OrganizationRow>(async (store, ids) => {
  const rows = await store.selectFrom('organizations').selectAll().where('id', '=', anyOf(ids)).execute();
  return new Map(rows.map((row) => [row.id, row]));
});

/** The organisations with these ids, oldest first. */
export function listOrganizations(store: Store, ids: readonly OrganizationId[]): Promise<OrganizationRow[]> {
  if (ids.length === 0) return Promise.resolve([]);
  return store
    .selectFrom('organizations')
    .selectAll()
    .where('id', '=', anyOf(ids))
    .orderBy('created_at')
    .orderBy('id')
    .execute();
}

export function insertOrganization(
  trx: StoreTransaction,
  organization: Pick<OrganizationRow, 'id' | 'name' | 'handle'>,
): Promise<OrganizationRow> {
  return trx.insertInto('organizations').values(organization).returningAll().executeTakeFirstOrThrow();
}

/** Holds who belongs to the organisation: whoever changes roles or removes members waits until the transaction ends. */
export async function lockMembers(trx: StoreTransaction, id: OrganizationId): Promise<void> {
  await sql`select from organizations where id = ${id} for no key update`.execute(trx);
}
