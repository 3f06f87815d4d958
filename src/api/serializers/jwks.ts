import type { ProjectJwksRow } from '../../store/schema.ts';
import type { Jwks } from '../schemas/jwks.ts';
import { timestamp } from './timestamp.ts';

/** An issuer of tokens as the API shows it. */
export function serializeJwks(row: ProjectJwksRow): Jwks {
  return {
    id: row.id,
    project_id: row.project_id,
    branch_id: row.branch_id ?? undefined,
    jwks_url: row.jwks_url,
    provider_name: row.provider_name,
    jwt_audience: row.jwt_audience ?? undefined,
    role_names: row.role_names,
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}
