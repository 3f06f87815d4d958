/**
 * The one table of operation kinds. An operation claims what it touches; two operations conflict when they claim the
 * same thing and one of them exclusively. A call waits for every earlier call that it conflicts with.
 */

export type ClaimMode = 'shared' | 'exclusive';

/** What can be claimed: columns of an operation's row. `source` is the timeline that a branch or an endpoint comes from. */
export interface Claims {
  readonly project?: ClaimMode;
  readonly timeline?: ClaimMode;
  readonly source?: ClaimMode;
  readonly endpoint?: ClaimMode;
}

export interface OperationKind {
  /** For people: the console's and the documentation's name. */
  readonly title: string;
  readonly claims: Claims;
  /** Attempts before the operation is `failed`, which waits for a person or a later event. */
  readonly attempts: number;
  /** Bound of one attempt. */
  readonly deadline_ms: number;
}

export const OPERATION_KINDS = {
  create_timeline: { title: 'Create timeline', claims: { project: 'exclusive' }, attempts: 5, deadline_ms: 120_000 },
  create_branch: {
    title: 'Create branch',
    claims: { project: 'shared', timeline: 'exclusive', source: 'shared' },
    attempts: 5,
    deadline_ms: 600_000,
  },
  start_compute: {
    title: 'Start compute',
    claims: { project: 'shared', timeline: 'exclusive', endpoint: 'exclusive' },
    attempts: 5,
    deadline_ms: 120_000,
  },
  suspend_compute: {
    title: 'Suspend compute',
    claims: { project: 'shared', timeline: 'exclusive', endpoint: 'exclusive' },
    attempts: 5,
    deadline_ms: 120_000,
  },
  apply_config: {
    title: 'Apply config',
    claims: { project: 'shared', timeline: 'exclusive', source: 'exclusive', endpoint: 'exclusive' },
    attempts: 5,
    deadline_ms: 120_000,
  },
  apply_schema_from_branch: {
    title: 'Apply schema from branch',
    claims: { project: 'shared', timeline: 'exclusive' },
    attempts: 3,
    deadline_ms: 600_000,
  },
  import_data: {
    title: 'Import data',
    claims: { project: 'shared', timeline: 'exclusive' },
    attempts: 3,
    deadline_ms: 14_400_000,
  },
  apply_storage_config: {
    title: 'Apply storage config',
    claims: { project: 'shared' },
    attempts: 5,
    deadline_ms: 60_000,
  },
  delete_timeline: {
    title: 'Delete timeline',
    claims: { project: 'shared', timeline: 'exclusive' },
    attempts: 20,
    deadline_ms: 600_000,
  },
  timeline_archive: {
    title: 'Timeline archive',
    claims: { project: 'shared', timeline: 'exclusive' },
    attempts: 5,
    deadline_ms: 3_600_000,
  },
  timeline_unarchive: {
    title: 'Timeline unarchive',
    claims: { project: 'shared', timeline: 'exclusive' },
    attempts: 6,
    deadline_ms: 3_600_000,
  },
  tenant_detach: { title: 'Tenant detach', claims: { project: 'exclusive' }, attempts: 5, deadline_ms: 14_400_000 },
  tenant_reattach: { title: 'Tenant reattach', claims: { project: 'exclusive' }, attempts: 6, deadline_ms: 14_400_000 },
  delete_tenant: { title: 'Delete tenant', claims: { project: 'exclusive' }, attempts: 20, deadline_ms: 600_000 },
} as const satisfies Record<string, OperationKind>;

export type OperationAction = keyof typeof OPERATION_KINDS;

export const OPERATION_STATUSES = [
  'scheduling',
  'running',
  'finished',
  'failed',
  'cancelling',
  'cancelled',
  'skipped',
] as const;
export type OperationStatus = (typeof OPERATION_STATUSES)[number];

/** What cannot be done to a timeline that is in object storage alone: it is brought back first. */
export const NEEDS_VOLUME: ReadonlySet<OperationAction> = new Set<OperationAction>([
  'create_branch',
  'start_compute',
  'apply_config',
]);

/** What makes the volume of the timeline that it claims. */
export const MAKES_VOLUME: ReadonlySet<OperationAction> = new Set<OperationAction>(['create_branch', 'import_data']);

/** Statuses in which an operation holds its claims. `failed` does not: it waits for a person or a later event. */
export const UNFINISHED_STATUSES = ['scheduling', 'running', 'cancelling'] as const;

/** Delay before attempt `failures + 1`: doubling from 0.5 s, at most 60 s. */
export function retryDelayMs(failures: number): number {
  return Math.min(60_000, 500 * 2 ** Math.max(0, failures - 1));
}

/** What an operation touches. */
export interface ClaimSubjects {
  readonly project_id: string;
  readonly timeline_id?: string;
  readonly source_timeline_id?: string;
  readonly endpoint_id?: string;
}

/**
 * The timeline that an operation on an endpoint's compute claims. A read replica writes to a volume of its own, so that it
 * starts and stops whatever is done to its branch meanwhile.
 */
export const claimedTimeline = (endpoint: {
  readonly type: 'read_write' | 'read_only';
  readonly timeline_id: string;
}): string | undefined => (endpoint.type === 'read_write' ? endpoint.timeline_id : undefined);

/** The claims of one operation as keys; two operations conflict when a key of one is an exclusive key of the other. */
export function claimKeys(action: OperationAction, subjects: ClaimSubjects): Record<ClaimMode, string[]> {
  const claims: Claims = OPERATION_KINDS[action].claims;
  const keys: Record<ClaimMode, string[]> = { shared: [], exclusive: [] };
  const claim = (mode: ClaimMode | undefined, noun: string, id: string | undefined) => {
    if (mode && id) keys[mode].push(`${noun}:${id}`);
  };
  claim(claims.project, 'project', subjects.project_id);
  claim(claims.timeline, 'timeline', subjects.timeline_id);
  claim(claims.source, 'timeline', subjects.source_timeline_id);
  claim(claims.endpoint, 'endpoint', subjects.endpoint_id);
  return keys;
}
