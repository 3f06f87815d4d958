import type { InstallationFacts } from '../../actions/context.ts';
import { endpointHost } from '../../domain/connection-string.ts';
import { endpointState } from '../../domain/states.ts';
import type { EndpointView } from '../../store/endpoints.ts';
import type { Endpoint } from '../schemas/endpoint.ts';
import { optionalTimestamp, timestamp } from './timestamp.ts';

/** An endpoint as the API shows it. */
export function serializeEndpoint(row: EndpointView, installation: InstallationFacts): Endpoint {
  return {
    host: endpointHost(installation, row.id),
    id: row.id,
    name: row.name ?? undefined,
    project_id: row.project_id,
    branch_id: row.branch_id,
    autoscaling_limit_min_cu: row.min_cu,
    autoscaling_limit_max_cu: row.max_cu,
    region_id: installation.region_id,
    type: row.type,
    ...endpointState(row.observed_state, row.last_unfinished ?? undefined),
    settings: { pg_settings: row.pg_settings },
    pooler_enabled: row.pooler_enabled,
    pooler_mode: 'transaction',
    disabled: row.disabled,
    passwordless_access: row.passwordless_access,
    last_active: optionalTimestamp(row.last_active_at),
    creation_source: 'console',
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
    started_at: optionalTimestamp(row.started_at),
    suspended_at: optionalTimestamp(row.suspended_at),
    proxy_host: installation.domain,
    suspend_timeout_seconds: row.suspend_timeout_seconds,
    provisioner: 'k8s-neonvm',
  };
}
