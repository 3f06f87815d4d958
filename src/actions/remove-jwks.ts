import { CoppiceError } from '../domain/errors.ts';
import { deleteJwks } from '../store/project-jwks.ts';
import { lockLiveProject } from '../store/projects.ts';
import type { ProjectJwksRow } from '../store/schema.ts';
import type { AccessibleProject } from './access.ts';
import type { ActionContext } from './context.ts';

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * Takes the tokens of an issuer no more. Roles that were made for them stay, since they may own something.
 *
 * @param id whatever a path says
 */
export function removeJwks(context: ActionContext, project: AccessibleProject, id: string): Promise<ProjectJwksRow> {
  return context.store.transaction().execute(async (trx) => {
    await lockLiveProject(trx, project.id);
    const removed = UUID.test(id) ? await deleteJwks(trx, project.id, id.toLowerCase()) : undefined;
    if (!removed) throw new CoppiceError('not_found', { noun: 'JWKS' });
    return removed;
  });
}
