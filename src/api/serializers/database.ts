import type { DatabaseRow } from '../../store/schema.ts';
import type { Database } from '../schemas/database.ts';
import { timestamp } from './timestamp.ts';

/** A database as the API shows it. */
export function serializeDatabase(row: DatabaseRow): Database {
  return {
    id: row.id,
    branch_id: row.branch_id,
    name: row.name,
    owner_name: row.owner_name,
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}
