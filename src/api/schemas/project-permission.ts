import Type, { type Static } from 'typebox';
import { Email, Timestamp } from './fields.ts';

export const ProjectPermission = Type.Object({
  id: Type.String(),
  granted_to_email: Type.String(),
  granted_at: Timestamp,
  revoked_at: Type.Optional(Timestamp),
});
export type ProjectPermission = Static<typeof ProjectPermission>;
export const ProjectPermissions = Type.Object({ project_permissions: Type.Array(ProjectPermission) });

export const ProjectPermissionCreate = Type.Object({ email: Email });
