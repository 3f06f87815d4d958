import type { ProjectId } from '../domain/ids.ts';
import type { RecordedEvent } from '../domain/shown-event.ts';
import type { EventScope } from '../store/events.ts';
import { accessProject } from './access.ts';
import type { Caller } from './caller.ts';
import { organizationsOf } from './caller.ts';
import type { ActionContext } from './context.ts';

/**
 * The events that a caller may see: of its organisations and its own keys, or of one project. Throws as `accessProject`
 * does for a project that is none of the caller's.
 */
export async function eventScopeOf(
  context: ActionContext,
  caller: Caller,
  project_id: ProjectId | undefined,
): Promise<EventScope> {
  if (project_id !== undefined) {
    const project = await accessProject(context, project_id)(caller, 'member');
    return { organization_ids: [project.organization_id], project_id };
  }
  return {
    organization_ids: organizationsOf(caller),
    ...(caller.kind === 'personal' && { user_id: caller.user.id }),
    ...(caller.kind === 'project' && { project_id: caller.project_id }),
  };
}

/** Whether somebody of that scope may see an event. Keys are none of the business of a key that is for one project. */
export function maySeeEvent(caller: Caller, scope: EventScope, event: RecordedEvent): boolean {
  if (scope.project_id !== undefined && event.project_id !== scope.project_id) return false;
  if (event.user_id !== null) return event.user_id === scope.user_id;
  if (caller.kind === 'project' && event.type.startsWith('api_key.')) return false;
  return event.organization_id !== null && scope.organization_ids.includes(event.organization_id);
}
