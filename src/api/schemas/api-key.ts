import Type, { type Static } from 'typebox';
import { LIMITS } from '../../domain/limits.ts';
import { Id, Name, Timestamp } from './fields.ts';

const Nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

const key = {
  id: Type.Integer(),
  name: Type.String(),
  created_at: Timestamp,
  /** Of keys for one project alone; clients take its mere presence for that. */
  project_id: Type.Optional(Type.String()),
  /** Of our own; there only where it is true. */
  read_only: Type.Optional(Type.Boolean()),
};
const use = { last_used_at: Nullable(Timestamp), last_used_from_addr: Type.String() };

/** In lists the creator is an object, in the other answers an id: so it is in the public API. */
export const ListedApiKey = Type.Object({
  ...key,
  created_by: Type.Object({ id: Type.String(), name: Type.String(), image: Type.String() }),
  ...use,
});
export const CreatedApiKey = Type.Object({ ...key, key: Type.String(), created_by: Type.String() });
export const RevokedApiKey = Type.Object({ ...key, created_by: Type.String(), ...use, revoked: Type.Boolean() });
export type ListedApiKey = Static<typeof ListedApiKey>;
export type CreatedApiKey = Static<typeof CreatedApiKey>;
export type RevokedApiKey = Static<typeof RevokedApiKey>;

const wanted = {
  key_name: Name(LIMITS.short_name_characters),
  read_only: Type.Optional(
    Type.Boolean({ description: 'The key changes nothing, and is shown no passwords and connection strings' }),
  ),
};
export const CreateApiKeyBody = Type.Object(wanted);
/** Without a project it is the organisation's own. */
export const CreateOrganizationKeyBody = Type.Object({
  ...wanted,
  project_id: Type.Optional(Id),
});
export const KeyId = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
