import type { Kysely } from 'kysely';
import type { Schema } from './schema.ts';

/** Stays the same for as long as the installation lives, also when it is restored elsewhere. */
export async function findInstallationId(store: Kysely<Schema>): Promise<string> {
  return (await store.selectFrom('installation').select('id').executeTakeFirstOrThrow()).id;
}
