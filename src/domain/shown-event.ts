import { type EventPosition, formatEventId } from './event-position.ts';
import type { OrganizationId, ProjectId, UserId } from './ids.ts';
import { endpointState, type ObservedCompute } from './states.ts';

/** Something that changed, as triggers wrote it (migration 4). */
export interface RecordedEvent extends EventPosition {
  readonly created_at: Date;
  /** `branch.created` */
  readonly type: string;
  readonly organization_id: OrganizationId | null;
  readonly project_id: ProjectId | null;
  /** Only this user may see it; null: whoever has to do with the organisation. */
  readonly user_id: UserId | null;
  readonly subject_id: string;
  /** Columns by name. */
  readonly data: Readonly<Record<string, unknown>>;
}

/** An event as callers see it, and webhooks. */
export interface ShownEvent {
  id: string;
  type: string;
  created_at: string;
  organization_id?: string;
  project_id?: string;
  subject_id: string;
  data: Record<string, unknown>;
}

/** Columns whose field in the API has another name. */
const FIELDS: Readonly<Record<string, string>> = {
  is_default: 'default',
  min_cu: 'autoscaling_limit_min_cu',
  max_cu: 'autoscaling_limit_max_cu',
};

/** An event with the fields that the API has of its noun. */
export function showEvent(epoch: string, row: RecordedEvent): ShownEvent {
  return {
    id: formatEventId(epoch, row),
    type: row.type,
    created_at: row.created_at.toISOString(),
    organization_id: row.organization_id ?? undefined,
    project_id: row.project_id ?? undefined,
    subject_id: row.subject_id,
    data: Object.fromEntries(Object.entries(row.data).map(([column, value]) => field(column, value))),
  };
}

function field(column: string, value: unknown): [string, unknown] {
  if (column === 'observed_state') {
    return ['current_state', endpointState(value as ObservedCompute, undefined).current_state];
  }
  if (column === 'expires_at') return [column, new Date(value as string).toISOString()];
  return [FIELDS[column] ?? column, value];
}
