import type { OrganizationId, UserId } from '../domain/ids.ts';
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

export async function insertMembership(
  trx: StoreTransaction,
  membership: { organization_id: OrganizationId; user_id: UserId; role: 'admin' | 'member' },
): Promise<void> {
  await trx.insertInto('memberships').values(membership).execute();
}
