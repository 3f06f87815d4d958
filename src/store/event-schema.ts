import type { Generated } from 'kysely';
import type { Big, Json, Time } from './column-types.ts';

/** The tables of migration 4, as schema.ts has the others. */

export interface IdempotencyKeysTable {
  api_key_id: number;
  key: string;
  request_hash: Buffer;
  status: number | null;
  sealed_answer: Buffer | null;
  created_at: Time;
}

/** Numbers of transactions are texts: they outgrow what a number holds. */
export interface EventsTable {
  transaction: Generated<string>;
  number: Big;
  created_at: Time;
  type: string;
  organization_id: string | null;
  project_id: string | null;
  user_id: string | null;
  subject_id: string;
  data: Json<Readonly<Record<string, unknown>>>;
}

export interface EventLogTable {
  singleton: Generated<boolean>;
  epoch: Generated<string>;
  forgotten_transaction: Generated<string>;
  forgotten_number: Big;
}
