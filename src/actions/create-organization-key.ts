import { hashApiKey, newApiKey } from '../domain/credentials.ts';
import { CoppiceError } from '../domain/errors.ts';
import type { OrganizationId, ProjectId } from '../domain/ids.ts';
import { insertOrganizationKey, type ListedApiKey } from '../store/api-keys.ts';
import { lockMemberRole } from '../store/memberships.ts';
import { lockLiveProject } from '../store/projects.ts';
import { requireRole } from './access.ts';
import type { PersonalCaller } from './caller.ts';
import type { ActionContext } from './context.ts';

interface WantedKey {
  readonly organization_id: OrganizationId;
  readonly project_id?: ProjectId;
  readonly name: string;
  readonly read_only?: boolean;
}

/**
 * Makes a key of an organisation, which only its admins may, or of one of its projects, which every member may. The secret is
 * told this once. The caller's role is read again with the key's making: nobody who has just lost it leaves a key behind.
 */
export async function createOrganizationKey(
  { store }: Pick<ActionContext, 'store'>,
  { user }: PersonalCaller,
  { organization_id, project_id, name, read_only = false }: WantedKey,
): Promise<{ key: ListedApiKey; secret: string }> {
  const secret = newApiKey();
  const key = await store.transaction().execute(async (trx) => {
    const role = await lockMemberRole(trx, { organization_id, user_id: user.id });
    if (!role) throw new CoppiceError('not_found', { noun: 'organization' });
    requireRole(role, project_id === undefined ? 'admin' : 'member');
    if (project_id !== undefined) {
      // Held, so that it does not leave the organisation meanwhile: its keys end with that.
      const project = await lockLiveProject(trx, project_id);
      if (project.organization_id !== organization_id) throw new CoppiceError('not_found', { noun: 'project' });
    }
    return insertOrganizationKey(trx, {
      ...{ organization_id, project_id: project_id ?? null, name, read_only, created_by: user.id },
      secret_hash: hashApiKey(secret),
    });
  });
  return { key, secret };
}
