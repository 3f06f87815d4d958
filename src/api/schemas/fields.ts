import Type, { type TProperties } from 'typebox';
import { PATH_ID_PATTERN } from '../../domain/ids.ts';
import { LIMITS } from '../../domain/limits.ts';

/** Fields that several nouns share. */

const WITHOUT_CONTROL_CHARACTERS = '^[^\\u0000-\\u001f\\u007f]*$';

/** An id as it stands in a path. */
export const Id = Type.String({ pattern: PATH_ID_PATTERN });
export const Uuid = Type.String({ format: 'uuid' });
export const Email = Type.String({ format: 'email', maxLength: LIMITS.email_characters });
/** RFC 3339, UTC, whole seconds. */
export const Timestamp = Type.String({ format: 'date-time' });

/** What a person calls a project, a branch, a key or an endpoint. Lengths are in code points. */
export const Name = (maxLength: number = LIMITS.name_characters) =>
  Type.String({ minLength: 1, maxLength, pattern: WITHOUT_CONTROL_CHARACTERS });

/** A Postgres identifier; its length in bytes is for the action to check. */
export const Identifier = Type.String({ minLength: 1, maxLength: LIMITS.identifier_bytes });

export const ProjectParams = Type.Object({ project_id: Id });
export const inProject = <P extends TProperties>(properties: P) => Type.Object({ project_id: Id, ...properties });

export const OrganizationParams = Type.Object({ org_id: Id });
export const inOrganization = <P extends TProperties>(properties: P) => Type.Object({ org_id: Id, ...properties });
