import { CoppiceError } from '../domain/errors.ts';
import { type BranchView, findBranchIdByName } from '../store/branches.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { listDatabases } from '../store/databases.ts';
import { findEndpointsOfBranch } from '../store/endpoints.ts';
import { listUnfinishedOfBranch } from '../store/operations.ts';
import { listRoles } from '../store/roles.ts';
import { type AccessibleProject, findBranchOf } from './access.ts';
import { prolongLease } from './branch-lease.ts';
import type { ActionContext } from './context.ts';
import type { BranchRequest, CreatedBranch } from './create-branch.ts';
import { openRolePassword } from './role-secret.ts';

type FoundBranch = Omit<CreatedBranch, 'created' | 'connection'> & { readonly passwords: ReadonlyMap<string, string> };

/**
 * The branch that a call with `if_absent` need not make, as it is now, with what is under way on it; undefined when there is
 * none of that name. The default branch, and one with another parent or another beginning than asked for, is somebody else's
 * and `branch_exists`: nobody gets the connection string of what they did not ask for. Belongs behind the project's lock.
 */
export async function findCreatedBranch(
  trx: StoreTransaction,
  context: ActionContext,
  project: AccessibleProject,
  { branch: wanted = {} }: BranchRequest,
): Promise<FoundBranch | undefined> {
  const name = wanted.name!;
  const id = await findBranchIdByName(trx, project.id, name);
  if (!id) return undefined;
  const found = await findBranchOf(trx, project, id);
  if (!mayBeMeant(found, wanted)) throw new CoppiceError('branch_exists', { name });
  if (wanted.lease_ttl_seconds !== undefined) await prolongLease(trx, found, wanted.lease_ttl_seconds);
  const roles = await listRoles(trx, id);
  return {
    branch: await findBranchOf(trx, project, id),
    endpoints: (await findEndpointsOfBranch(trx, id)) ?? [],
    operations: await listUnfinishedOfBranch(trx, project.id, id),
    roles,
    databases: await listDatabases(trx, id),
    passwords: new Map(
      roles.flatMap((role) => {
        const password = openRolePassword(context.vault, role);
        return password === undefined ? [] : [[role.name, password] as const];
      }),
    ),
  };
}

/** A branch that was reset or restored since may have another parent than it was made with, and is told apart then, too. */
function mayBeMeant(found: BranchView, { parent_id, init_source }: NonNullable<BranchRequest['branch']>): boolean {
  if (found.is_default) return false;
  if (init_source === 'schema-only') return found.init_source === init_source;
  return parent_id ? found.parent_id === parent_id : found.parent_id !== null;
}
