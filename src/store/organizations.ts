import { coalesced } from './coalesced.ts';
import type { OrganizationRow } from './schema.ts';

export const findOrganization = coalesced<string, OrganizationRow>(async (store, ids) => {
  const rows = await store.selectFrom('organizations').selectAll().where('id', 'in', ids).execute();
  return new Map(rows.map((row) => [row.id, row]));
});
