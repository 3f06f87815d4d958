import type { KeyKind, MembershipRole } from '../actions/caller.ts';
import type { ErrorName } from '../domain/errors.ts';

/** What a route acts on. `project` and `organization` routes have that id in their path. */
export type Scope = 'account' | 'organization' | 'project';

export interface Permission {
  readonly scope: Scope;
  /** Least role in the organisation. Organisation keys are admins, project keys are members. */
  readonly role: MembershipRole;
  /** Kinds of keys that are turned away whatever they ask for, and with which error. */
  readonly refused: Readonly<Partial<Record<KeyKind, ErrorName>>>;
  /** Shows a password, which opens more than a key that only reads. */
  readonly reveals?: true;
}

const PERSONAL_ONLY = { organization: 'organization_key_refused', project: 'organization_key_refused' } as const;
const NOT_FOR_PROJECT_KEYS = { project: 'project_key_out_of_scope' } as const;
/** An organisation's keys act for its admins, and still make no keys or members. */
const PEOPLE_OF_IT = { organization: 'organization_key_refused', project: 'project_key_out_of_scope' } as const;

const onProject = { scope: 'project', role: 'member', refused: {} } as const;

/** The one table of who may do what. Every route names an entry; a test walks all routes and all kinds of keys. */
export const PERMISSIONS = {
  'api_keys.manage': { scope: 'account', role: 'member', refused: PERSONAL_ONLY },
  'user.read': { scope: 'account', role: 'member', refused: PERSONAL_ONLY },
  'user.list_organizations': { scope: 'account', role: 'member', refused: {} },
  'auth.read': { scope: 'account', role: 'member', refused: {} },
  'regions.list': { scope: 'account', role: 'member', refused: {} },
  'organization.read': { scope: 'organization', role: 'member', refused: NOT_FOR_PROJECT_KEYS },
  'organization.update': { scope: 'organization', role: 'admin', refused: NOT_FOR_PROJECT_KEYS },
  'organization_key.list': { scope: 'organization', role: 'member', refused: NOT_FOR_PROJECT_KEYS },
  // Of the organisation's own keys the action asks for an admin; a project's key is for every member to make.
  'organization_key.create': { scope: 'organization', role: 'member', refused: PEOPLE_OF_IT },
  'organization_key.revoke': { scope: 'organization', role: 'admin', refused: NOT_FOR_PROJECT_KEYS },
  'member.read': { scope: 'organization', role: 'member', refused: NOT_FOR_PROJECT_KEYS },
  'member.update': { scope: 'organization', role: 'admin', refused: NOT_FOR_PROJECT_KEYS },
  // Members may leave; of whoever takes out another member the action asks for an admin.
  'member.remove': { scope: 'organization', role: 'member', refused: PEOPLE_OF_IT },
  'invitation.list': { scope: 'organization', role: 'member', refused: NOT_FOR_PROJECT_KEYS },
  'invitation.write': { scope: 'organization', role: 'admin', refused: PEOPLE_OF_IT },
  'audit_log.read': { scope: 'organization', role: 'admin', refused: NOT_FOR_PROJECT_KEYS },
  'project.list': { scope: 'account', role: 'member', refused: NOT_FOR_PROJECT_KEYS },
  'project.list_shared': { scope: 'account', role: 'member', refused: PERSONAL_ONLY },
  'project.create': { scope: 'account', role: 'member', refused: NOT_FOR_PROJECT_KEYS },
  'project.delete': { scope: 'project', role: 'admin', refused: { project: 'project_key_refused' } },
  // Whoever a project is shared with may share it further.
  'project.share': { scope: 'project', role: 'member', refused: { project: 'project_key_refused' } },
  'project.offer': { scope: 'project', role: 'admin', refused: { project: 'project_key_refused' } },
  // Of a project that is somebody else's: the id of the request is what opens it.
  'project.take': { scope: 'account', role: 'member', refused: { project: 'project_key_refused' } },
  'organization.transfer_projects': { scope: 'organization', role: 'admin', refused: PEOPLE_OF_IT },
  // The action asks for an admin of each project's organisation.
  'user.transfer_projects': { scope: 'account', role: 'member', refused: PERSONAL_ONLY },
  // One that is deleted is not found by its path: the action looks for it, and asks for an admin.
  'project.recover': { scope: 'account', role: 'admin', refused: { project: 'project_key_refused' } },
  'project.read': onProject,
  'project.update': onProject,
  'branch.read': onProject,
  'branch.write': onProject,
  'snapshot.read': onProject,
  'snapshot.write': onProject,
  'endpoint.read': onProject,
  'endpoint.write': onProject,
  'role.read': onProject,
  'role.write': onProject,
  'role.reveal_password': { ...onProject, reveals: true },
  'database.read': onProject,
  'database.write': onProject,
  'connection_uri.read': { ...onProject, reveals: true },
  'operation.read': onProject,
  'webhook.read': onProject,
  'webhook.write': onProject,
  'organization_webhook.read': { scope: 'organization', role: 'admin', refused: NOT_FOR_PROJECT_KEYS },
  'organization_webhook.write': { scope: 'organization', role: 'admin', refused: NOT_FOR_PROJECT_KEYS },
  'consumption.read': { scope: 'account', role: 'member', refused: NOT_FOR_PROJECT_KEYS },
  'event.read': { scope: 'account', role: 'member', refused: {} },
} as const satisfies Record<string, Permission>;

export type PermissionName = keyof typeof PERMISSIONS;
