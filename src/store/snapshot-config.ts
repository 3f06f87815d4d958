import type { Insertable } from 'kysely';
import type { SnapshotId } from '../domain/ids.ts';
import type { Store } from './connection.ts';
import { listDatabasesEvenDeleted } from './databases.ts';
import type { SeenDatabase, SeenRole } from './learned.ts';
import { listRolesEvenDeleted } from './roles.ts';
import type { DatabasesTable, RolesTable } from './schema.ts';
import { findSnapshot, writeSnapshotConfig } from './snapshots.ts';

/** Rows of `roles` and `databases` as they are kept in a snapshot: times and bytes as texts. */
export interface SnapshotConfig {
  readonly roles: readonly SnapshotRole[];
  readonly databases: readonly SnapshotDatabase[];
}

export interface SnapshotRole {
  readonly name: string;
  readonly origin: RolesTable['origin'];
  readonly can_login: boolean;
  readonly verifier: string | null;
  /** Base64; what is sealed is bound to the snapshot's source branch. */
  readonly sealed_password: string | null;
  readonly valid_until: string | null;
  readonly created_at: string;
  readonly deleted_at: string | null;
  readonly applied_verifier: string | null;
}

export interface SnapshotDatabase {
  readonly name: string;
  readonly owner_name: string;
  readonly origin: 'api' | 'sql';
  readonly created_at: string;
  readonly deleted_at: string | null;
  readonly applied_name: string | null;
  readonly applied_owner_name: string | null;
}

const text = (time: Date | null): string | null => time?.toISOString() ?? null;
const time = (kept: string | null): Date | null => (kept === null ? null : new Date(kept));

/** The roles and databases of a branch as they are now, to be kept with a snapshot. */
export async function readBranchConfig(store: Store, branch_id: string): Promise<SnapshotConfig> {
  const roles = await listRolesEvenDeleted(store, branch_id);
  const databases = await listDatabasesEvenDeleted(store, branch_id);
  return {
    roles: roles.map(({ name, origin, can_login, verifier, applied_verifier, ...role }) => ({
      ...{ name, origin, can_login, verifier, applied_verifier },
      sealed_password: role.sealed_password?.toString('base64') ?? null,
      valid_until: text(role.valid_until),
      created_at: role.created_at.toISOString(),
      deleted_at: text(role.deleted_at),
    })),
    databases: databases.map(({ name, owner_name, origin, applied_name, applied_owner_name, ...database }) => ({
      ...{ name, owner_name, origin, applied_name, applied_owner_name },
      created_at: database.created_at.toISOString(),
      deleted_at: text(database.deleted_at),
    })),
  };
}

/** A kept role as a row of another branch; its password is still sealed for the branch that it was read from. */
export const roleFromConfig = (role: SnapshotRole, branch_id: string) =>
  ({
    ...role,
    branch_id,
    sealed_password: role.sealed_password === null ? null : Buffer.from(role.sealed_password, 'base64'),
    valid_until: time(role.valid_until),
    created_at: new Date(role.created_at),
    deleted_at: time(role.deleted_at),
  }) satisfies Insertable<RolesTable>;

/** Kept databases as rows of another branch. */
export const databasesFromConfig = ({ databases }: SnapshotConfig, branch_id: string): Insertable<DatabasesTable>[] =>
  databases.map((database) => ({
    ...database,
    branch_id,
    created_at: new Date(database.created_at),
    deleted_at: time(database.deleted_at),
  }));

/**
 * Makes the kept roles and databases those of an earlier state that the snapshot was made at. A role that is still known
 * keeps its password, as it does in a branch of an earlier point.
 */
export async function adoptSnapshotConfig(
  store: Store,
  id: SnapshotId,
  seen: {
    readonly roles: readonly (SeenRole & { readonly privileged: boolean })[];
    readonly databases: readonly SeenDatabase[];
  },
): Promise<void> {
  const snapshot = await findSnapshot(store, id);
  if (!snapshot) return;
  const known = new Map(snapshot.config.roles.filter((role) => !role.deleted_at).map((role) => [role.name, role]));
  const databases = new Map(snapshot.config.databases.map((database) => [database.name, database]));
  const now = new Date().toISOString();
  await writeSnapshotConfig(store, id, {
    roles: seen.roles.map(({ name, can_login, verifier, valid_until, privileged }) => ({
      ...{ name, can_login, verifier, sealed_password: null, created_at: now, deleted_at: null },
      origin: privileged ? ('api' as const) : ('sql' as const),
      valid_until: text(valid_until),
      ...known.get(name),
      applied_verifier: verifier,
    })),
    databases: seen.databases.map(({ name, owner_name }) => ({
      ...{ name, owner_name, origin: databases.get(name)?.origin ?? ('sql' as const), deleted_at: null },
      created_at: databases.get(name)?.created_at ?? now,
      applied_name: name,
      applied_owner_name: owner_name,
    })),
  });
}
