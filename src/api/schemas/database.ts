import Type, { type Static } from 'typebox';
import { Id, Identifier, inProject, Timestamp } from './fields.ts';
import { Operations } from './operation.ts';

export const Database = Type.Object({
  id: Type.Integer(),
  branch_id: Type.String(),
  name: Type.String(),
  owner_name: Type.String(),
  created_at: Timestamp,
  updated_at: Timestamp,
});
export type Database = Static<typeof Database>;

export const DatabaseParams = inProject({ branch_id: Id, database_name: Type.String() });
export const DatabaseCreate = Type.Object({ database: Type.Object({ name: Identifier, owner_name: Identifier }) });
export const DatabaseUpdate = Type.Object({
  database: Type.Object({ name: Type.Optional(Identifier), owner_name: Type.Optional(Identifier) }),
});
export const DatabaseOperations = Type.Object({ database: Database, operations: Operations });
