import type { ConnectionTarget } from '../domain/connection-string.ts';
import { CoppiceError } from '../domain/errors.ts';
import type { BranchId, EndpointId } from '../domain/ids.ts';
import { findDefaultBranch } from '../store/branches.ts';
import type { Store } from '../store/connection.ts';
import { findDatabase } from '../store/databases.ts';
import { findEndpointsOfBranch } from '../store/endpoints.ts';
import { type AccessibleProject, findBranchOf, findEndpointOf } from './access.ts';
import type { ActionContext } from './context.ts';
import { revealRolePassword } from './reveal-role-password.ts';

export interface ConnectionRequest {
  /** The default branch, or that of the endpoint. */
  readonly branch_id?: BranchId;
  /** The branch's read_write endpoint. */
  readonly endpoint_id?: EndpointId;
  readonly database_name: string;
  readonly role_name: string;
  readonly pooled?: boolean;
}

/** Where and as whom to connect. Anything unknown is `not_found`. */
export async function findConnection(
  context: ActionContext,
  project: AccessibleProject,
  { branch_id, endpoint_id, database_name, role_name, pooled }: ConnectionRequest,
): Promise<ConnectionTarget> {
  const endpoint = await findTarget(context.store, project, branch_id, endpoint_id);
  const database = await findDatabase(context.store, endpoint.branch_id, database_name);
  if (!database) throw new CoppiceError('not_found', { noun: 'database' });
  const password = await revealRolePassword(context, project, endpoint.branch_id, role_name);
  return { endpoint_id: endpoint.id, pooled, role: role_name, password, database: database.name };
}

async function findTarget(store: Store, project: AccessibleProject, branch_id?: BranchId, endpoint_id?: EndpointId) {
  if (endpoint_id) {
    const endpoint = await findEndpointOf(store, project, endpoint_id);
    if (branch_id && endpoint.branch_id !== branch_id) throw new CoppiceError('not_found', { noun: 'endpoint' });
    return endpoint;
  }
  const branch = branch_id ? await findBranchOf(store, project, branch_id) : await findDefaultBranch(store, project.id);
  const endpoints = branch && (await findEndpointsOfBranch(store, branch.id));
  const endpoint = endpoints?.find(({ type }) => type === 'read_write');
  if (!endpoint) throw new CoppiceError('not_found', { noun: 'read_write endpoint' });
  return endpoint;
}
