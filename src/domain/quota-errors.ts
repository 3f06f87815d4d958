import type { ErrorKind } from './errors.ts';

const ofMonth = <const Code extends string>(code: Code, what: string, unit: string) => ({
  status: 422,
  code,
  message: `the quota of ${what} is used up: computes start again when it is raised, or at {resets_at}; project_id:"{project_id}", used:"{used} ${unit}", quota:"{limit} ${unit}"`,
  retry: 'after_change' as const,
});

/** Rows of the error table: what keeps a project's computes from being started. */
export const QUOTA_ERRORS = {
  active_time_quota: ofMonth('ACTIVE_TIME_QUOTA_EXCEEDED', 'active time', 's'),
  compute_time_quota: ofMonth('COMPUTE_TIME_QUOTA_EXCEEDED', 'compute time', 's'),
  written_data_quota: ofMonth('WRITTEN_DATA_QUOTA_EXCEEDED', 'written data', 'bytes'),
  data_transfer_quota: ofMonth('DATA_TRANSFER_QUOTA_EXCEEDED', 'data transfer', 'bytes'),
  logical_size_quota: {
    status: 422,
    code: 'LOGICAL_SIZE_QUOTA_EXCEEDED',
    message:
      'the branch is as large as the quota of logical size: its computes start again when that is raised; project_id:"{project_id}", used:"{used} bytes", quota:"{limit} bytes"',
    retry: 'after_change',
  },
} as const satisfies Record<string, ErrorKind>;
