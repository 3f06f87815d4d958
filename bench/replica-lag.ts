import { setTimeout as delay } from 'node:timers/promises';
import { inspectCompute } from './bare-server.ts';
import { type BusyParent, openSocket } from './busy-parent.ts';
import type { Installation } from './installation.ts';

const INTERVAL_MS = 10;
/** Until the replica has caught up with what was written while it was made. */
const SETTLE_MS = 3000;
const REPLICA_CU = 2;

/**
 * How far a read replica is behind its busy primary. Each 10 ms a row is committed on the primary, and the replica is
 * asked for the newest that it has.
 *
 * @returns at each question the age of the oldest commit that the replica did not show, in milliseconds; 0 when it had all
 */
export async function sampleReplicaLag(
  installation: Installation,
  parent: BusyParent,
  { seconds, signal }: { seconds: number; signal: AbortSignal },
): Promise<number[]> {
  const { coppice } = installation;
  const { project } = parent;
  const { endpoint } = await coppice.must('POST', `/projects/${project.id}/endpoints`, {
    endpoint: {
      ...{ branch_id: project.branch_id, type: 'read_only', suspend_timeout_seconds: -1 },
      ...{ autoscaling_limit_min_cu: REPLICA_CU, autoscaling_limit_max_cu: REPLICA_CU },
    },
  });
  await coppice.settled(project.id);
  const primary = await openSocket(parent.socket_directory);
  const replica = await openSocket(inspectCompute(installation, endpoint.id).layout.socket_directory);
  const writing = new AbortController();
  try {
    await primary.query('create table ticks (number int primary key)');
    const committed: number[] = [];
    const write = async () => {
      while (!writing.signal.aborted) {
        await primary.query({ name: 'tick', text: 'insert into ticks values ($1)', values: [committed.length] });
        committed.push(performance.now());
        await delay(INTERVAL_MS);
      }
    };
    const written = write();
    written.catch(() => undefined);
    await delay(SETTLE_MS);
    const samples: number[] = [];
    const until = performance.now() + seconds * 1000;
    while (performance.now() < until) {
      signal.throwIfAborted();
      const asked = performance.now();
      const { rows } = await replica.query({ name: 'look', text: 'select max(number) as newest from ticks' });
      const missed = committed[(rows[0].newest ?? -1) + 1] ?? asked;
      samples.push(Math.max(0, asked - missed));
      await delay(INTERVAL_MS);
    }
    writing.abort();
    await written;
    return samples;
  } finally {
    writing.abort();
    await Promise.all([primary.end(), replica.end()]);
    await coppice.must('DELETE', `/projects/${project.id}/endpoints/${endpoint.id}`);
    await coppice.settled(project.id);
  }
}
