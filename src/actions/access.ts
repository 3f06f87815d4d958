import { CoppiceError } from '../domain/errors.ts';
import type { BranchId, EndpointId, OrganizationId, SnapshotId } from '../domain/ids.ts';
import { type BranchView, findBranch } from '../store/branches.ts';
import type { Store } from '../store/connection.ts';
import { type EndpointView, findEndpoint } from '../store/endpoints.ts';
import { findOperation } from '../store/operations.ts';
import { findOrganization } from '../store/organizations.ts';
import { isSharedWith } from '../store/project-permissions.ts';
import { findProject, type ProjectView } from '../store/projects.ts';
import type { OperationRow, OrganizationRow, ProjectRow } from '../store/schema.ts';
import { findSnapshot, type SnapshotView } from '../store/snapshots.ts';
import { type Caller, type MembershipRole, organizationsOf, roleIn } from './caller.ts';
import type { ActionContext } from './context.ts';

declare const accessible: unique symbol;
/** A project that the caller may act on. Only `accessProject` makes one, so an action that takes it is authorised. */
export type AccessibleProject = ProjectView & { readonly [accessible]: true };

/** Gives the project that was asked for to a caller who has at least `role` in its organisation. */
export type ProjectAccess = (caller: Caller, role: MembershipRole) => Promise<AccessibleProject>;

/**
 * Begins to look the project up, which takes as long as finding out who asks. Whoever it is shared with may what members of
 * its organisation may; that is looked up for those alone who are none. A project that the caller may not see is
 * `not_found`; a key of another project is told which project it is for; too low a role is `permission_denied`.
 */
export function accessProject(context: ActionContext, projectId: string): ProjectAccess {
  const lookup = findProject(context.store, projectId);
  // Nobody waits for it when the caller is turned away before.
  lookup.catch(() => undefined);
  return async (caller, role) => {
    if (caller.kind === 'project' && caller.project_id !== projectId) {
      throw new CoppiceError('project_key_out_of_scope', { project_id: caller.project_id });
    }
    const project = await lookup;
    const held = project && (roleIn(caller, project.organization_id) ?? (await sharedRole(context, caller, project)));
    if (!project || !held) throw new CoppiceError('not_found', { noun: 'project' });
    requireRole(held, role);
    return project as AccessibleProject;
  };
}

/** What somebody from outside the organisation may do with a project: what a member may, if it is shared. */
async function sharedRole(
  { store }: ActionContext,
  caller: Caller,
  { id }: ProjectRow,
): Promise<MembershipRole | undefined> {
  if (caller.kind !== 'personal') return undefined;
  return (await isSharedWith(store, id, caller.user.id)) ? 'member' : undefined;
}

/** Throws `permission_denied` when the role that is held is less than the one that is needed. */
export function requireRole(held: MembershipRole, needed: MembershipRole): void {
  if (needed === 'admin' && held !== 'admin') throw new CoppiceError('permission_denied', { role: needed });
}

/** The organisation, when the caller has at least `role` in it; `not_found` when it is none of the caller's. */
export async function accessOrganization(
  context: ActionContext,
  caller: Caller,
  organizationId: string,
  role: MembershipRole,
): Promise<OrganizationRow> {
  const held = roleIn(caller, organizationId);
  const organization = held && (await findOrganization(context.store, organizationId));
  if (!organization) throw new CoppiceError('not_found', { noun: 'organization' });
  requireRole(held, role);
  return organization;
}

/**
 * The organisation that a call is about when its path names none: the one given, or the only one the caller has to do
 * with. One that is none of the caller's is `not_found`; `organization_required` when there are several.
 */
export function chooseOrganization(caller: Caller, given: OrganizationId | undefined): OrganizationId {
  if (given !== undefined) {
    if (!roleIn(caller, given)) throw new CoppiceError('not_found', { noun: 'organization' });
    return given;
  }
  const organizations = organizationsOf(caller);
  if (organizations.length !== 1) throw new CoppiceError('organization_required', { count: organizations.length });
  return organizations[0]!;
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** An operation by whatever a path says; undefined for a text that is no id. */
export async function lookUpOperation(store: Store, id: string): Promise<OperationRow | undefined> {
  return UUID.test(id) ? findOperation(store, id.toLowerCase()) : undefined;
}

/** The operation, if it is one of the project's; else `not_found`. */
export function requireOperationOf(project: AccessibleProject, operation: OperationRow | undefined): OperationRow {
  if (operation?.project_id !== project.id) throw new CoppiceError('not_found', { noun: 'operation' });
  return operation;
}

/** The project's branch, or `not_found`. */
export async function findBranchOf(store: Store, project: AccessibleProject, id: BranchId): Promise<BranchView> {
  const branch = await findBranch(store, id);
  if (branch?.project_id !== project.id) throw new CoppiceError('not_found', { noun: 'branch' });
  return branch;
}

/** The project's endpoint, or `not_found`. */
export async function findEndpointOf(store: Store, project: AccessibleProject, id: EndpointId): Promise<EndpointView> {
  const endpoint = await findEndpoint(store, id);
  if (endpoint?.project_id !== project.id || endpoint.ephemeral_of) {
    throw new CoppiceError('not_found', { noun: 'endpoint' });
  }
  return endpoint;
}

/** The project's snapshot, or `not_found`. */
export async function findSnapshotOf(store: Store, project: AccessibleProject, id: SnapshotId): Promise<SnapshotView> {
  const snapshot = await findSnapshot(store, id);
  if (snapshot?.project_id !== project.id) throw new CoppiceError('not_found', { noun: 'snapshot' });
  return snapshot;
}
