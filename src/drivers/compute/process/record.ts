import { readFileSync } from 'node:fs';
import type { ComputeUnits } from '../../../domain/compute-size.ts';
import { writeWhole } from './configuration.ts';
import type { ProcessIdentity } from './processes.ts';

/** What the driver remembers of a compute. A hint: /proc and the data directory decide. */
export interface ComputeRecord {
  readonly data_directory: string;
  readonly owner?: { readonly uid: number; readonly gid: number };
  readonly size: ComputeUnits;
  /** `starting`: a server may run that is not named below. `ending`: it was asked to stop, or could not start. */
  readonly phase: 'starting' | 'running' | 'ending';
  readonly server?: ProcessIdentity & { readonly boot_id: string };
  /** The directories of its control group. */
  readonly group?: readonly string[];
}

/** undefined when there is none; one cut short by a power failure counts as none, since no server outlives that. */
export function readRecord(path: string): ComputeRecord | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as ComputeRecord;
  } catch {
    return undefined;
  }
}

export function writeRecord(path: string, record: ComputeRecord): void {
  writeWhole(path, JSON.stringify(record), { mode: 0o600 });
}
