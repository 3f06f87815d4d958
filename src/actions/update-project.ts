import { DEFAULT_RANGE } from '../domain/compute-size.ts';
import { createCall, type NewOperation } from '../store/calls.ts';
import type { StoreTransaction } from '../store/connection.ts';
import { findEndpointsOfProject } from '../store/endpoints.ts';
import { lockLiveProject, type ProjectView, updateProjectRow } from '../store/projects.ts';
import type { OperationRow, ProjectRow } from '../store/schema.ts';
import type { AccessibleProject } from './access.ts';
import type { ActionContext } from './context.ts';
import { endpointOperation, willRun } from './endpoint-operations.ts';
import {
  changedEndpointDefaults,
  changedProjectSettings,
  checkHistoryRetention,
  type EndpointDefaultsRequest,
  type ProjectSettingsRequest,
} from './project-settings.ts';

/** Fields as in the API; what is left out stays. */
export interface ProjectChanges {
  readonly name?: string;
  readonly history_retention_seconds?: number;
  readonly default_endpoint_settings?: EndpointDefaultsRequest;
  readonly settings?: ProjectSettingsRequest;
}

/** Changes a project. Endpoints that exist keep their sizes; active ones restart when logical replication comes on. */
export function updateProject(
  context: ActionContext,
  { id }: AccessibleProject,
  changes: ProjectChanges,
): Promise<{ project: ProjectView; operations: OperationRow[] }> {
  return context.store.transaction().execute(async (trx) => {
    const before = await lockLiveProject(trx, id);
    const { history_retention_seconds = before.history_retention_seconds } = changes;
    checkHistoryRetention(history_retention_seconds);
    const settings = changedProjectSettings(changes.settings ?? {}, before.settings);
    const defaults = changedEndpointDefaults(
      changes.default_endpoint_settings ?? {},
      {
        pg_settings: {},
        autoscaling_limit_min_cu: DEFAULT_RANGE.min_cu,
        autoscaling_limit_max_cu: DEFAULT_RANGE.max_cu,
        suspend_timeout_seconds: 0,
        ...before.default_endpoint_settings,
      },
      context.installation,
    );
    const project = await updateProjectRow(trx, id, {
      name: changes.name ?? before.name,
      history_retention_seconds,
      settings: JSON.stringify(settings),
      default_endpoint_settings: JSON.stringify(defaults),
    });
    const operations = await createCall(trx, id, await followUps(trx, before, project));
    return { project: { ...project, usage: before.usage }, operations };
  });
}

async function followUps(trx: StoreTransaction, before: ProjectRow, after: ProjectRow): Promise<NewOperation[]> {
  const operations: NewOperation[] = [];
  if (after.history_retention_seconds !== before.history_retention_seconds) {
    operations.push({ action: 'apply_storage_config' });
  }
  if (after.history_retention_seconds > 0 !== before.history_retention_seconds > 0) {
    // Servers are told where their log goes before anything is thrown away.
    const running = ((await findEndpointsOfProject(trx, after.id)) ?? []).filter(willRun);
    operations.unshift(...running.map((endpoint) => endpointOperation('apply_config', endpoint)));
  }
  if (after.settings.enable_logical_replication === true && before.settings.enable_logical_replication !== true) {
    // It is read when a server starts.
    for (const endpoint of ((await findEndpointsOfProject(trx, after.id)) ?? []).filter(willRun)) {
      operations.push(endpointOperation('suspend_compute', endpoint), endpointOperation('start_compute', endpoint));
    }
  }
  return operations;
}
