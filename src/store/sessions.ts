import { sql } from 'kysely';
import type { UserId } from '../domain/ids.ts';
import { coalesced } from './coalesced.ts';
import type { Store, StoreTransaction } from './connection.ts';

/** A session that is valid now, with its person and that person's organisations. */
export interface SessionHolderRow {
  readonly session_id: string;
  readonly user_id: UserId;
  readonly email: string;
  readonly user_name: string;
  readonly memberships: Readonly<Record<string, 'admin' | 'member'>>;
}

/** Whoever is logged in with that token; undefined where it has expired or was ended, in whatever process. */
export const findSessionHolder = coalesced<string, SessionHolderRow>(async (store, tokens) => {
  const { rows } = await sql<SessionHolderRow & { token: string }>`
    select s.token, s.id as session_id, s.user_id, u.email, u.name as user_name,
      coalesce((select json_object_agg(m.organization_id, m.role) from memberships m where m.user_id = s.user_id), '{}')
        as memberships
    from coppice_auth.sessions s join users u on u.id = s.user_id
    where s.token = any(${tokens}::text[]) and s.expires_at > now()
  `.execute(store);
  return new Map(rows.map((row) => [row.token, row]));
});

/** Logs a person out everywhere, logins that wait for a second factor included. Gives how many sessions there were. */
export async function endSessionsOf(trx: StoreTransaction, user_id: UserId): Promise<number> {
  await trx.deleteFrom('coppice_auth.verifications').where('value', '=', user_id).execute();
  const ended = await trx.deleteFrom('coppice_auth.sessions').where('user_id', '=', user_id).executeTakeFirst();
  return Number(ended.numDeletedRows);
}

/** Forgets what has expired: sessions, logins under way, codes and links; of each so many at most. */
export async function forgetExpiredLogins(store: Store, before: Date, most: number): Promise<void> {
  for (const table of ['sessions', 'verifications', 'used_codes', 'links']) {
    const name = sql.table(`coppice_auth.${table}`);
    await sql`delete from ${name} where ctid = any(array(
      select ctid from ${name} where expires_at < ${before} limit ${most}))`.execute(store);
  }
}
