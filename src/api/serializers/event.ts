import { formatEventId } from '../../domain/event-position.ts';
import { endpointState, type ObservedCompute } from '../../domain/states.ts';
import type { EventRow } from '../../store/events.ts';
import type { Event } from '../schemas/event.ts';

/** Columns whose field in the API has another name. */
const FIELDS: Readonly<Record<string, string>> = {
  is_default: 'default',
  min_cu: 'autoscaling_limit_min_cu',
  max_cu: 'autoscaling_limit_max_cu',
};

/** An event as the API shows it, with the fields of the noun that it is of. */
export function serializeEvent(epoch: string, row: EventRow): Event {
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
