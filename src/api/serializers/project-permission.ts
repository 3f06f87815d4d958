import type { ProjectPermissionRow } from '../../store/schema.ts';
import type { ProjectPermission } from '../schemas/project-permission.ts';
import { optionalTimestamp, timestamp } from './timestamp.ts';

export function serializeProjectPermission(row: ProjectPermissionRow): ProjectPermission {
  return {
    id: row.id,
    granted_to_email: row.email,
    granted_at: timestamp(row.granted_at),
    revoked_at: optionalTimestamp(row.revoked_at),
  };
}
