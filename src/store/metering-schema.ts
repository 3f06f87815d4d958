import type { Big, Time } from './column-types.ts';

/** The tables of migration 6, as schema.ts has the others. Functions of that migration write them. */

export interface ComputeRunsTable {
  endpoint_id: string;
  branch_id: string;
  project_id: string;
  cu: number;
  metered_until: Time;
}

export interface UsageHoursTable {
  branch_id: string;
  hour: Time;
  project_id: string;
  active_us: Big;
  compute_us: Big;
  written_bytes: Big;
  received_bytes: Big;
  sent_bytes: Big;
  private_bytes: Big;
}

export interface StorageHoursTable {
  branch_id: string;
  kind: 'logical' | 'root' | 'child' | 'history' | 'snapshot';
  hour: Time;
  project_id: string;
  /** As text: it outgrows what a number holds. */
  byte_seconds: string;
  bytes_end: Big;
}

export interface BranchUsageTable {
  branch_id: string;
  period_start: Time;
  active_us: Big;
  compute_us: Big;
  written_bytes: Big;
  received_bytes: Big;
  sent_bytes: Big;
}

export interface ProjectUsageTable {
  project_id: string;
  period_start: Time;
  active_us: Big;
  compute_us: Big;
  written_bytes: Big;
  received_bytes: Big;
  sent_bytes: Big;
  storage_bytes: Big;
  storage_byte_seconds: string;
  storage_at: Time;
}

export interface TransferSourcesTable {
  id: string;
  last_batch: Big;
  told_at: Time;
}

export interface MeteringSchema {
  compute_runs: ComputeRunsTable;
  usage_hours: UsageHoursTable;
  storage_hours: StorageHoursTable;
  branch_usage: BranchUsageTable;
  project_usage: ProjectUsageTable;
  transfer_sources: TransferSourcesTable;
}
