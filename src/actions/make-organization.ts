import { newOrganizationId, type UserId } from '../domain/ids.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { insertMembership } from '../store/memberships.ts';
import { insertOrganization } from '../store/organizations.ts';
import type { OrganizationRow } from '../store/schema.ts';

/** Makes an organisation whose first admin is that user. */
export async function makeOrganization(
  trx: StoreTransaction,
  { name, user_id }: { name: string; user_id: UserId },
): Promise<OrganizationRow> {
  const id = newOrganizationId();
  const slug = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
    .slice(0, 60);
  const organization = await insertOrganization(trx, { id, name, handle: slug === '' ? id : `${slug}-${id}` });
  await insertMembership(trx, { organization_id: id, user_id, role: 'admin' });
  return organization;
}
