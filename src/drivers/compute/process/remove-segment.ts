import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { readPostmasterFile } from './data-directory.ts';
import type { ComputeRecord } from './record.ts';
import { findHolder } from './server.ts';

const run = promisify(execFile);

/**
 * A server that was killed leaves a small segment of System V shared memory, of which a system has a few thousand. The
 * next start on its data directory removes it; where none will follow we do. It is done as the server's user: the
 * segment's number stands in a file which that user can write.
 */
export async function removeSegment({ data_directory, owner }: ComputeRecord): Promise<void> {
  const segment = readPostmasterFile(data_directory)?.shared_memory_id;
  if (segment === undefined || findHolder({ data_directory, owner })) return;
  // Gone already, or no `ipcrm` here: nothing that a caller could do about it.
  await run('ipcrm', ['-m', String(segment)], { ...owner, cwd: '/', env: {} }).catch(() => undefined);
}
