import { readDatabases } from '../postgres/databases.ts';
import { readRoles } from '../postgres/roles.ts';
import type { OpenSession } from '../postgres/session.ts';
import { learnConfig } from '../store/learned.ts';
import type { EngineContext } from './context.ts';

/** Takes over the roles, passwords and databases that customers made or changed in SQL. */
export async function learnFromServer(ctx: EngineContext, branchId: string, open: OpenSession): Promise<void> {
  await using session = await open('postgres');
  const seen = { roles: await readRoles(session), databases: await readDatabases(session) };
  await learnConfig(ctx.store, branchId, seen);
}
