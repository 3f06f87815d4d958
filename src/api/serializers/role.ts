import type { RoleRow } from '../../store/schema.ts';
import type { Role } from '../schemas/role.ts';
import { timestamp } from './timestamp.ts';

/** A role as the API shows it; its password only where it was made just now. */
export function serializeRole(row: RoleRow, password?: string): Role {
  return {
    branch_id: row.branch_id,
    name: row.name,
    password,
    protected: false,
    authentication_method: row.can_login ? 'password' : 'no_login',
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}
