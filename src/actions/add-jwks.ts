import { CoppiceError } from '../domain/errors.ts';
import type { BranchId } from '../domain/ids.ts';
import { LIMITS } from '../domain/limits.ts';
import { isLocalDomain, outboundUrlProblem } from '../domain/outbound-url.ts';
import { listBranches } from '../store/branches.ts';
import { createCall } from '../store/calls.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { findEndpointsOfProject } from '../store/endpoints.ts';
import { countJwks, insertJwks } from '../store/project-jwks.ts';
import { lockLiveProject } from '../store/projects.ts';
import type { OperationRow, ProjectJwksRow } from '../store/schema.ts';
import { findMissingRoles, insertTokenRoles } from '../store/token-roles.ts';
import { type AccessibleProject, findBranchOf } from './access.ts';
import type { ActionContext } from './context.ts';
import { checkRoleName } from './create-role.ts';
import { endpointOperation, willRun } from './endpoint-operations.ts';
import { newRoleSecret, sealRolePassword } from './role-secret.ts';

/** Fields as in the API. */
export interface JwksRequest {
  readonly jwks_url: string;
  readonly provider_name: string;
  /** Undefined: all branches. */
  readonly branch_id?: BranchId;
  readonly jwt_audience?: string;
  readonly role_names?: readonly string[];
  readonly skip_role_creation?: boolean;
}

const DEFAULT_ROLES = ['authenticator', 'authenticated', 'anonymous'];

/**
 * Takes the tokens of an issuer in a project, as certain roles. Those that a branch lacks are made, without any rights: by
 * servers that run now, by the others when they start. Nothing is woken for it.
 */
export async function addJwks(
  context: ActionContext,
  project: AccessibleProject,
  { branch_id, skip_role_creation = false, ...request }: JwksRequest,
): Promise<{ jwks: ProjectJwksRow; operations: OperationRow[] }> {
  const problem = outboundUrlProblem(request.jwks_url, isLocalDomain(context.installation.domain));
  if (problem) throw new CoppiceError('invalid_request', { field: 'jwks_url', problem });
  const role_names = [...new Set(request.role_names?.length ? request.role_names : DEFAULT_ROLES)];
  for (const name of role_names) checkRoleName(name, 'role_names');
  return context.store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project.id);
    if (branch_id !== undefined) await findBranchOf(trx, project, branch_id);
    if ((await countJwks(trx, project.id)) >= LIMITS.jwks_per_project) {
      throw new CoppiceError('jwks_limit', { limit: LIMITS.jwks_per_project });
    }
    const { jwks_url, provider_name, jwt_audience } = request;
    const jwks = await insertJwks(trx, {
      ...{ project_id: project.id, branch_id: branch_id ?? null, jwks_url, provider_name, role_names },
      jwt_audience: jwt_audience ?? null,
    });
    const changed = skip_role_creation ? [] : await makeRoles(trx, context, jwks);
    return { jwks, operations: await applyToRunning(trx, project, changed) };
  });
}

/**
 * Makes the roles where they lack. Their password is stored even where the project stores none: nobody is told it, and it
 * is what lets in those who come with a token. It is the same on all branches, as on a branch and its copies.
 *
 * @returns the branches that lacked any
 */
async function makeRoles(
  trx: StoreTransaction,
  { vault }: ActionContext,
  { project_id, branch_id, role_names }: ProjectJwksRow,
): Promise<BranchId[]> {
  const missing = await findMissingRoles(trx, project_id, branch_id ?? undefined, role_names);
  if (missing.length === 0) return [];
  const lacking = Map.groupBy(missing, (role) => role.branch_id);
  for (const roles of lacking.values()) {
    if (roles[0]!.roles + roles.length > LIMITS.roles_per_branch) {
      throw new CoppiceError('roles_limit', { limit: LIMITS.roles_per_branch });
    }
  }
  const branches = await listBranches(trx, project_id, { sort_by: 'created_at', sort_order: 'asc' });
  // What is changed now would be overwritten by what is restored.
  if (branches.some(({ id, in_restore }) => in_restore && lacking.has(id)))
    throw new CoppiceError('operations_running');
  const secrets = new Map<string, { password: string; verifier: string }>();
  for (const { branch_id, name } of missing) {
    if (!secrets.has(name))
      secrets.set(name, await newRoleSecret(vault, { branch_id, name }, { store_passwords: true }));
  }
  await insertTokenRoles(
    trx,
    missing.map(({ branch_id, name }) => {
      const { password, verifier } = secrets.get(name)!;
      return { branch_id, name, verifier, sealed_password: sealRolePassword(vault, { branch_id, name }, password) };
    }),
  );
  return [...lacking.keys()];
}

async function applyToRunning(
  trx: StoreTransaction,
  { id }: AccessibleProject,
  branches: readonly BranchId[],
): Promise<OperationRow[]> {
  if (branches.length === 0) return [];
  const endpoints = (await findEndpointsOfProject(trx, id)) ?? [];
  const running = endpoints.filter(
    (endpoint) => endpoint.type === 'read_write' && branches.includes(endpoint.branch_id) && willRun(endpoint),
  );
  return createCall(
    trx,
    id,
    running.map((endpoint) => endpointOperation('apply_config', endpoint)),
  );
}
