import Type, { type Static } from 'typebox';
import { LIMITS } from '../../domain/limits.ts';
import { Id, Identifier, inProject, Name, Timestamp } from './fields.ts';
import { Operations } from './operation.ts';

export const Jwks = Type.Object({
  id: Type.String(),
  project_id: Type.String(),
  /** Absent: every branch of the project. */
  branch_id: Type.Optional(Type.String()),
  jwks_url: Type.String(),
  provider_name: Type.String(),
  jwt_audience: Type.Optional(Type.String()),
  role_names: Type.Array(Type.String()),
  created_at: Timestamp,
  updated_at: Timestamp,
});
export type Jwks = Static<typeof Jwks>;

export const JwksParams = inProject({ jwks_id: Type.String() });
export const JwksCreate = Type.Object({
  jwks_url: Type.String({ minLength: 1, maxLength: LIMITS.outbound_url_characters }),
  provider_name: Name(),
  branch_id: Type.Optional(Id),
  jwt_audience: Type.Optional(Name()),
  role_names: Type.Optional(Type.Array(Identifier, { maxItems: LIMITS.roles_per_jwks })),
  skip_role_creation: Type.Optional(Type.Boolean()),
});
export const JwksOperations = Type.Object({ jwks: Jwks, operations: Operations });
