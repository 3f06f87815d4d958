import Type, { type Static } from 'typebox';
import { Id, Identifier, inProject, Timestamp } from './fields.ts';
import { Operations } from './operation.ts';

export const Role = Type.Object({
  branch_id: Type.String(),
  name: Type.String(),
  /** Only in the answer to the call that made it. */
  password: Type.Optional(Type.String()),
  protected: Type.Boolean(),
  authentication_method: Type.String({ enum: ['password', 'no_login'] }),
  created_at: Timestamp,
  updated_at: Timestamp,
});
export type Role = Static<typeof Role>;

export const RoleParams = inProject({ branch_id: Id, role_name: Type.String() });
export const RoleCreate = Type.Object({
  role: Type.Object({ name: Identifier, no_login: Type.Optional(Type.Boolean()) }),
});
export const RoleOperations = Type.Object({ role: Role, operations: Operations });
