import { sql } from 'kysely';
import type { OrganizationId, UserId } from '../domain/ids.ts';
import type { Store, StoreTransaction } from './connection.ts';
import type { MembershipRow } from './schema.ts';

type Role = MembershipRow['role'];

/** A member, and the address of the person. */
export interface MemberView extends MembershipRow {
  readonly email: string;
  readonly two_factor_enabled: boolean;
}

export type MemberSortColumn = 'email' | 'role' | 'joined_at';

export interface MemberListOptions {
  readonly sort_by: MemberSortColumn;
  readonly sort_order: 'asc' | 'desc';
  /** The text of the sort column and the id of the last member of the page before. */
  readonly after?: { readonly key: string; readonly id: string };
  readonly limit: number;
}

function members(store: Store) {
  return store
    .selectFrom('memberships')
    .innerJoin('users', 'users.id', 'memberships.user_id')
    .selectAll('memberships')
    .select(['users.email', 'users.two_factor_enabled']);
}

/** A page of the organisation's members, each with its key in the list. */
export function listMembers(
  store: Store,
  organization_id: OrganizationId,
  { sort_by, sort_order, after, limit }: MemberListOptions,
): Promise<(MemberView & { readonly sort_key: string })[]> {
  const column = sql.ref(sort_by === 'email' ? 'users.email' : `memberships.${sort_by}`);
  // By code point, so that a place in the list does not depend on a collation, which may change under us.
  const sort = sort_by === 'joined_at' ? column : sql`${column} collate "C"`;
  const type = sql.raw(sort_by === 'joined_at' ? 'timestamptz' : 'text');
  const beyond = sql.raw(sort_order === 'asc' ? '>' : '<');
  return members(store)
    .select(sql<string>`${column}::text`.as('sort_key'))
    .where('memberships.organization_id', '=', organization_id)
    .$if(after !== undefined, (query) =>
      query.where(sql<boolean>`(${sort}, memberships.id) ${beyond} (${after?.key}::${type}, ${after?.id}::uuid)`),
    )
    .orderBy(sort, sort_order)
    .orderBy('memberships.id', sort_order)
    .limit(limit)
    .execute();
}

/**
 * A member of the organisation.
 *
 * @param id a UUID
 */
export function findMember(
  store: Store,
  organization_id: OrganizationId,
  id: string,
): Promise<MembershipRow | undefined> {
  return store
    .selectFrom('memberships')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .where('id', '=', id)
    .executeTakeFirst();
}

/** A user's role in an organisation as it is now, held until the transaction ends; undefined for those who are no member. */
export async function lockMemberRole(
  trx: StoreTransaction,
  { organization_id, user_id }: { organization_id: OrganizationId; user_id: UserId },
): Promise<Role | undefined> {
  const row = await trx
    .selectFrom('memberships')
    .select('role')
    .where('organization_id', '=', organization_id)
    .where('user_id', '=', user_id)
    .forShare()
    .executeTakeFirst();
  return row?.role;
}

/** Whether the organisation has an admin beside this member. */
export async function hasAnotherAdmin(
  trx: StoreTransaction,
  { organization_id, id }: Pick<MembershipRow, 'organization_id' | 'id'>,
): Promise<boolean> {
  const row = await trx
    .selectFrom('memberships')
    .select('id')
    .where('organization_id', '=', organization_id)
    .where('role', '=', 'admin')
    .where('id', '<>', id)
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

export async function insertMembership(
  trx: StoreTransaction,
  membership: { organization_id: OrganizationId; user_id: UserId; role: Role },
): Promise<void> {
  await trx.insertInto('memberships').values(membership).execute();
}

export function updateMemberRole(trx: StoreTransaction, id: string, role: Role): Promise<MembershipRow> {
  return trx.updateTable('memberships').set({ role }).where('id', '=', id).returningAll().executeTakeFirstOrThrow();
}

/** Takes a person out of an organisation: the next request with one of the person's keys finds nothing of it. */
export async function deleteMembership(trx: StoreTransaction, id: string): Promise<void> {
  await trx.deleteFrom('memberships').where('id', '=', id).execute();
}
