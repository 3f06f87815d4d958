import type { OrganizationRow } from '../../store/schema.ts';
import type { Organization } from '../schemas/organization.ts';
import { timestamp } from './timestamp.ts';

export function serializeOrganization(row: OrganizationRow): Organization {
  return {
    id: row.id,
    name: row.name,
    handle: row.handle,
    plan: row.plan,
    managed_by: 'console',
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}
