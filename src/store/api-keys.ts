import { sql } from 'kysely';
import type { OrganizationId, ProjectId, UserId } from '../domain/ids.ts';
import { coalesced } from './coalesced.ts';
import type { Store, StoreTransaction } from './connection.ts';
import type { ApiKeyRow } from './schema.ts';

/** A key that is valid now, with the person behind it and that person's organisations. */
export interface KeyHolderRow {
  readonly id: number;
  readonly kind: 'personal' | 'organization' | 'project';
  readonly user_id: string | null;
  readonly organization_id: string | null;
  readonly project_id: string | null;
  readonly read_only: boolean;
  readonly email: string | null;
  readonly user_name: string | null;
  readonly memberships: Readonly<Record<string, 'admin' | 'member'>>;
}

/** The holder of the unrevoked key with that hash (hexadecimal). */
export const findKeyHolder = coalesced<string, KeyHolderRow>(async (store, hashes) => {
  const { rows } = await sql<KeyHolderRow & { hash: string }>`
    select k.id, encode(k.secret_hash, 'hex') as hash, k.kind, k.user_id, k.organization_id, k.project_id,
      k.read_only, u.email, u.name as user_name,
      coalesce((select json_object_agg(m.organization_id, m.role) from memberships m where m.user_id = k.user_id), '{}')
        as memberships
    from api_keys k left join users u on u.id = k.user_id
    where k.secret_hash = any(${hashes.map((hash) => Buffer.from(hash, 'hex'))}::bytea[]) and k.revoked_at is null
  `.execute(store);
  return new Map(rows.map((row) => [row.hash, row]));
});

/** Sets when and from where keys were used last. */
export async function recordKeyUse(
  store: Store,
  uses: readonly { id: number; at: Date; address: string }[],
): Promise<void> {
  await sql`
    update api_keys set last_used_at = used.at, last_used_from_addr = used.address
    from unnest(${uses.map((use) => use.id)}::bigint[], ${uses.map((use) => use.at)}::timestamptz[],
      ${uses.map((use) => use.address)}::text[]) as used (id, at, address)
    where api_keys.id = used.id and (last_used_at is null or last_used_at < used.at)
  `.execute(store);
}

/** A key without its hash. */
export type ListedApiKey = Omit<ApiKeyRow, 'secret_hash'>;

const LISTED = [
  'id',
  'kind',
  'name',
  'user_id',
  'organization_id',
  'project_id',
  'created_by',
  'created_at',
  'revoked_at',
  'last_used_at',
  'last_used_from_addr',
  'read_only',
] as const;

/** The user's valid personal keys, oldest first. */
export function listPersonalKeys(store: Store, userId: UserId): Promise<ListedApiKey[]> {
  return store
    .selectFrom('api_keys')
    .select(LISTED)
    .where('user_id', '=', userId)
    .where('revoked_at', 'is', null)
    .orderBy('id')
    .execute();
}

export function insertPersonalKey(
  store: Store | StoreTransaction,
  key: { user_id: UserId; name: string; secret_hash: Buffer; read_only?: boolean },
): Promise<ListedApiKey> {
  return store
    .insertInto('api_keys')
    .values({ ...key, kind: 'personal', created_by: key.user_id })
    .returning(LISTED)
    .executeTakeFirstOrThrow();
}

/** A key by its hash, revoked or not. */
export function findKeyByHash(trx: StoreTransaction, secretHash: Buffer): Promise<ListedApiKey | undefined> {
  return trx.selectFrom('api_keys').select(LISTED).where('secret_hash', '=', secretHash).executeTakeFirst();
}

/** Ends a valid personal key of the user; undefined when there is none of that id. */
export function revokePersonalKey(store: Store, userId: UserId, id: number): Promise<ListedApiKey | undefined> {
  return store
    .updateTable('api_keys')
    .set({ revoked_at: sql<Date>`now()` })
    .where('id', '=', id)
    .where('kind', '=', 'personal')
    .where('user_id', '=', userId)
    .where('revoked_at', 'is', null)
    .returning(LISTED)
    .executeTakeFirst();
}

/** A key of an organisation, with the name or e-mail address of whoever made it. */
export interface OrganizationKey extends ListedApiKey {
  readonly creator: string;
}

/** The valid keys of an organisation, those of its projects among them, oldest first. */
export function listOrganizationKeys(store: Store, organization_id: OrganizationId): Promise<OrganizationKey[]> {
  return store
    .selectFrom('api_keys')
    .innerJoin('users', 'users.id', 'api_keys.created_by')
    .select(LISTED.map((column) => `api_keys.${column}` as const))
    .select(sql<string>`coalesce(nullif(users.name, ''), users.email)`.as('creator'))
    .where('api_keys.organization_id', '=', organization_id)
    .where('api_keys.revoked_at', 'is', null)
    .orderBy('api_keys.id')
    .execute();
}

/** Writes a key of an organisation; one with a project is that project's. */
export function insertOrganizationKey(
  trx: StoreTransaction,
  key: Pick<ApiKeyRow, 'name' | 'secret_hash' | 'created_by' | 'project_id' | 'read_only'> & {
    organization_id: OrganizationId;
  },
): Promise<ListedApiKey> {
  return trx
    .insertInto('api_keys')
    .values({ ...key, kind: key.project_id === null ? 'organization' : 'project' })
    .returning(LISTED)
    .executeTakeFirstOrThrow();
}

/** Ends a valid key of the organisation or of one of its projects; undefined when there is none of that id. */
export function revokeOrganizationKey(
  store: Store,
  organization_id: OrganizationId,
  id: number,
): Promise<ListedApiKey | undefined> {
  return store
    .updateTable('api_keys')
    .set({ revoked_at: sql<Date>`now()` })
    .where('id', '=', id)
    .where('organization_id', '=', organization_id)
    .where('revoked_at', 'is', null)
    .returning(LISTED)
    .executeTakeFirst();
}

/** Ends every key that is for this project alone. */
export async function revokeKeysOfProject(trx: StoreTransaction, project_id: ProjectId): Promise<void> {
  await trx
    .updateTable('api_keys')
    .set({ revoked_at: sql<Date>`now()` })
    .where('project_id', '=', project_id)
    .where('revoked_at', 'is', null)
    .execute();
}
