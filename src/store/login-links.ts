import { sql } from 'kysely';
import type { OrganizationId, UserId } from '../domain/ids.ts';
import type { Store, StoreTransaction } from './connection.ts';

/** What a link is for: a person's password, or an invitation. */
type LinkSubject = { readonly user_id: UserId } | { readonly invitation_id: string };

/** A link that can be used now. */
export interface LinkRow {
  readonly user_id: UserId | null;
  /** Of a person, or whom the invitation is for. */
  readonly email: string;
  readonly invitation_id: string | null;
  readonly organization_id: OrganizationId | null;
  readonly organization_name: string | null;
  readonly mailed: boolean;
}

/** Makes a link the only one of its subject. */
export async function replaceLink(
  trx: StoreTransaction,
  subject: LinkSubject,
  link: { readonly token_hash: Buffer; readonly expires_at: Date; readonly mailed: boolean },
): Promise<void> {
  await deleteLinks(trx, subject);
  await trx
    .insertInto('coppice_auth.links')
    .values({ ...subject, ...link })
    .execute();
}

/** Ends the links of a subject that nobody has used. */
export async function deleteLinks(trx: StoreTransaction, subject: LinkSubject): Promise<void> {
  const [column, id] = Object.entries(subject)[0] as ['user_id' | 'invitation_id', string];
  await trx.deleteFrom('coppice_auth.links').where(column, '=', id).execute();
}

const OPEN_LINK = sql`
  select l.user_id, coalesce(u.email, i.email) as email, l.invitation_id, i.organization_id, o.name as organization_name, l.mailed
  from coppice_auth.links l
  left join users u on u.id = l.user_id
  left join invitations i on i.id = l.invitation_id and i.accepted_at is null
  left join organizations o on o.id = i.organization_id
  where l.expires_at > now() and (u.id is not null or i.id is not null)`;

/** The link with that hash, without using it. */
export async function findLink(store: Store, token_hash: Buffer): Promise<LinkRow | undefined> {
  const { rows } = await sql<LinkRow>`${OPEN_LINK} and l.token_hash = ${token_hash}`.execute(store);
  return rows[0];
}

/** Takes a link, which nobody else can then: undefined for one that is unknown, expired or used. */
export async function takeLink(trx: StoreTransaction, token_hash: Buffer): Promise<LinkRow | undefined> {
  const { rows: held } = await sql`
    select from coppice_auth.links where token_hash = ${token_hash} for update`.execute(trx);
  const link = held.length > 0 ? await findLink(trx, token_hash) : undefined;
  await trx.deleteFrom('coppice_auth.links').where('token_hash', '=', token_hash).execute();
  return link;
}
