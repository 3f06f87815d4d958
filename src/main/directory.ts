import { customerConnections, pooledConnections } from '../domain/compute-size.ts';
import type { BranchId, EndpointId } from '../domain/ids.ts';
import type { AccessRules, Directory, RoleSecret } from '../gateway/contract.ts';
import type { Change } from '../store/changes.ts';
import type { Store } from '../store/connection.ts';
import {
  type DirectoryAccess,
  type DirectoryEndpoint,
  findDirectoryBranch,
  findDirectoryEndpoint,
  findDirectoryRole,
  findRunningPrimary,
} from '../store/directory.ts';
import { ENTRIES_MAX, remember } from './remember.ts';

export interface CachedDirectory extends Directory {
  /** The endpoint with what only `main` needs to know of it, as the store has it at this moment. */
  findNow(id: EndpointId): Promise<DirectoryEndpoint | undefined>;
  /** Forgets what a change makes stale. */
  hear(change: Change): void;
  /** Forgets everything: changes may have been missed. */
  forget(): void;
}

export interface DirectoryOptions {
  /** Whether announcements arrive at all; while they do not, every look-up asks the store. */
  readonly isFresh: () => boolean;
  /** Reads the roles of a running server anew. */
  readonly learn: (id: EndpointId) => Promise<void>;
  /** So many gateways divide what an endpoint's server can take. */
  readonly processes: number;
}

/** The gateway's view of the store, kept in memory until a change is announced. */
export function createDirectory(store: Store, { isFresh, learn, processes }: DirectoryOptions): CachedDirectory {
  const share = (connections: number) => Math.max(1, Math.floor(connections / processes));
  const endpoints = new Map<EndpointId, Promise<DirectoryEndpoint | undefined>>();
  /** Branch id -> role name -> secret. */
  const roles = new Map<string, Map<string, Promise<RoleSecret | undefined>>>();

  const find = (id: EndpointId) => remember(endpoints, id, () => findDirectoryEndpoint(store, id), isFresh);
  const findRole = (branch_id: BranchId, running: boolean, name: string) => {
    const load = () => findDirectoryRole(store, { branch_id, running, name });
    // A password in waiting looks different to a sleeping and to a running server; both belong to the branch's entry.
    return remember(ofBranch(roles, branch_id), `${running} ${name}`, load, isFresh);
  };
  /** Whom to ask for what was done to roles in SQL: a replica hears of it only from its primary. */
  const teacherOf = async ({ id, type, branch_id, observed_state }: DirectoryEndpoint) => {
    if (type === 'read_only') return findRunningPrimary(store, branch_id);
    return observed_state === 'running' ? id : undefined;
  };
  return {
    findNow: (id) => findDirectoryEndpoint(store, id),
    endpoint: async (id) => {
      const found = await find(id);
      // One that serves the past is reached by way of its branch alone.
      if (!found || found.ephemeral_of) return undefined;
      const { observed_state } = found;
      const state = observed_state === 'running' || observed_state === 'stopping' ? observed_state : 'stopped';
      // A replica runs with room for what its primary has, which may be larger.
      const sessions_max = found.type === 'read_only' ? share(customerConnections(found)) : undefined;
      const pool_size = share(pooledConnections(found));
      const access = accessRules(found.access);
      return { endpoint_id: found.id, disabled: found.disabled, access, state, sessions_max, pool_size };
    },
    role: async (id, name, { refresh } = {}) => {
      const endpoint = await find(id);
      if (!endpoint || endpoint.ephemeral_of) return undefined;
      const running = endpoint.observed_state === 'running';
      const teacher = refresh ? await teacherOf(endpoint) : undefined;
      if (teacher) {
        await learn(teacher);
        roles.delete(endpoint.branch_id);
      }
      return findRole(endpoint.branch_id, running, name);
    },
    branch: async (id) => {
      const found = await findDirectoryBranch(store, id);
      return found && { access: accessRules(found.access) };
    },
    branchRole: async (id, name, { refresh } = {}) => {
      const branch = await findDirectoryBranch(store, id);
      if (!branch) return undefined;
      const { running_endpoint_id } = branch;
      if (refresh && running_endpoint_id) {
        await learn(running_endpoint_id);
        roles.delete(id);
      }
      return findRole(id, running_endpoint_id !== null, name);
    },
    hear: ({ noun, id }) => {
      if (noun === 'endpoint') endpoints.delete(id);
      if (noun === 'branch') roles.delete(id);
      // Rare; the endpoints of one project are not worth an index.
      if (noun === 'access') endpoints.clear();
    },
    forget: () => {
      endpoints.clear();
      roles.clear();
    },
  };
}

function accessRules({ allowed_ips, block_public_connections }: DirectoryAccess): AccessRules | undefined {
  if (allowed_ips.length === 0 && !block_public_connections) return undefined;
  return { allowed_ips: allowed_ips.length > 0 ? allowed_ips : undefined, private_only: block_public_connections };
}

function ofBranch<T>(branches: Map<string, Map<string, T>>, id: string): Map<string, T> {
  const known = branches.get(id);
  if (known) return known;
  const made = new Map<string, T>();
  if (branches.size >= ENTRIES_MAX) branches.delete(branches.keys().next().value!);
  branches.set(id, made);
  return made;
}
