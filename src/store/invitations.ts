import { sql } from 'kysely';
import type { OrganizationId, UserId } from '../domain/ids.ts';
import type { Store, StoreTransaction } from './connection.ts';
import type { InvitationRow, UserRow } from './schema.ts';

/** The organisation's newest invitations, open and accepted ones. */
export function listInvitations(
  store: Store,
  organization_id: OrganizationId,
  limit: number,
): Promise<InvitationRow[]> {
  return store
    .selectFrom('invitations')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .orderBy('invited_at', 'desc')
    .orderBy('id')
    .limit(limit)
    .execute();
}

export async function countOpenInvitations(store: Store, organization_id: OrganizationId): Promise<number> {
  const { count } = await store
    .selectFrom('invitations')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('organization_id', '=', organization_id)
    .where('accepted_at', 'is', null)
    .executeTakeFirstOrThrow();
  return count;
}

/** Invites an address, whatever its case; one that was invited before is so with the new role. */
export async function upsertInvitation(
  trx: StoreTransaction,
  invitation: Pick<InvitationRow, 'organization_id' | 'email' | 'role' | 'invited_by'>,
): Promise<InvitationRow> {
  const { organization_id, email, role, invited_by } = invitation;
  const { rows } = await sql<InvitationRow>`
    insert into invitations (organization_id, email, role, invited_by)
    values (${organization_id}, lower(${email}), ${role}, ${invited_by})
    on conflict (organization_id, email) where accepted_at is null
      do update set role = excluded.role, invited_by = excluded.invited_by, invited_at = excluded.invited_at
    returning *`.execute(trx);
  return rows[0]!;
}

/** Makes a user, for whose address somebody vouches, a member of all that invited it. Gives the organisations. */
export async function acceptInvitations(
  trx: StoreTransaction,
  { id, email }: Pick<UserRow, 'id' | 'email'>,
): Promise<OrganizationId[]> {
  const { rows } = await sql<{ organization_id: OrganizationId }>`
    with accepted as (
      update invitations set accepted_at = now() where email = lower(${email}) and accepted_at is null
      returning organization_id, role
    )
    insert into memberships (organization_id, user_id, role)
    select organization_id, ${id}::uuid, role from accepted
    on conflict (organization_id, user_id) do nothing
    returning organization_id`.execute(trx);
  return rows.map(({ organization_id }) => organization_id);
}

/** Whether any organisation invites the address, whatever its case. */
export async function isInvited(trx: StoreTransaction, email: string): Promise<boolean> {
  const { rows } = await sql`
    select from invitations where email = lower(${email}) and accepted_at is null limit 1`.execute(trx);
  return rows.length > 0;
}

/** Makes a user a member by one invitation, whoever it is addressed to. */
export async function acceptInvitation(trx: StoreTransaction, id: string, user_id: UserId): Promise<void> {
  await sql`
    with accepted as (
      update invitations set accepted_at = now() where id = ${id} and accepted_at is null
      returning organization_id, role
    )
    insert into memberships (organization_id, user_id, role)
    select organization_id, ${user_id}::uuid, role from accepted
    on conflict (organization_id, user_id) do nothing`.execute(trx);
}

/**
 * Takes an invitation back that nobody has accepted; undefined when there is none.
 *
 * @param id a UUID
 */
export function deleteOpenInvitation(
  store: Store,
  organization_id: OrganizationId,
  id: string,
): Promise<InvitationRow | undefined> {
  return store
    .deleteFrom('invitations')
    .where('organization_id', '=', organization_id)
    .where('id', '=', id)
    .where('accepted_at', 'is', null)
    .returningAll()
    .executeTakeFirst();
}

interface InvitedUser extends Pick<UserRow, 'id' | 'email' | 'email_verified'> {
  readonly is_member: boolean;
}

/** A user by address, whatever its case, and whether the user is a member of the organisation. */
export async function findInvited(
  trx: StoreTransaction,
  organization_id: OrganizationId,
  email: string,
): Promise<InvitedUser | undefined> {
  const { rows } = await sql<InvitedUser>`
    select users.id, users.email, users.email_verified, exists (
      select from memberships where organization_id = ${organization_id} and user_id = users.id
    ) as is_member
    from users where lower(users.email) = lower(${email})`.execute(trx);
  return rows[0];
}
