import { newRolePassword, type Vault } from '../domain/credentials.ts';
import type { BranchId } from '../domain/ids.ts';
import { createVerifier, formatVerifier } from '../domain/scram-verifier.ts';

/** A role's password in the forms that are kept of it. */
export interface RoleSecret {
  /** Shown once. */
  readonly password: string;
  readonly verifier: string;
  /** Null where the project does not store passwords. */
  readonly sealed_password: Buffer | null;
}

/** What a sealed password is bound to: it opens for no other role. */
const sealContext = (branch_id: BranchId, name: string): string => `role:${branch_id}:${name}`;

/** A new password for a role. */
export async function newRoleSecret(
  vault: Vault,
  role: { readonly branch_id: BranchId; readonly name: string },
  { store_passwords }: { readonly store_passwords: boolean },
): Promise<RoleSecret> {
  const password = newRolePassword();
  return {
    password,
    verifier: formatVerifier(await createVerifier(password)),
    sealed_password: store_passwords ? sealRolePassword(vault, role, password) : null,
  };
}

export function sealRolePassword(
  vault: Vault,
  role: { readonly branch_id: BranchId; readonly name: string },
  password: string,
): Buffer {
  return vault.seal(password, sealContext(role.branch_id, role.name));
}

/** The role's password; undefined when it has none or it is not stored. */
export function openRolePassword(
  vault: Vault,
  role: { readonly branch_id: BranchId; readonly name: string; readonly sealed_password: Buffer | null },
): string | undefined {
  return role.sealed_password ? vault.open(role.sealed_password, sealContext(role.branch_id, role.name)) : undefined;
}
