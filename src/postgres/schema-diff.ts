import { Worker } from 'node:worker_threads';
import type { DiffWork } from './schema-diff-worker.ts';

/**
 * What of a schema is not as in the one that it is compared with, as a unified diff; empty when nothing is. Two long
 * texts with nothing in common take long to compare, so that this runs on a thread until the signal fires.
 */
export async function diffSchemas(work: DiffWork, signal: AbortSignal): Promise<string> {
  if (work.base === work.schema) return '';
  signal.throwIfAborted();
  const worker = new Worker(new URL('./schema-diff-worker.ts', import.meta.url), {
    name: 'schema diff',
    workerData: work,
    env: {},
  });
  let onAbort = () => {};
  try {
    return await new Promise<string>((resolve, reject) => {
      worker.once('message', resolve);
      worker.once('error', (error) => reject(new Error('the thread that compares schemas failed', { cause: error })));
      worker.once('exit', () => reject(new Error('the thread that compares schemas ended')));
      onAbort = () => reject(signal.reason);
      signal.addEventListener('abort', onAbort, { once: true });
    });
  } finally {
    signal.removeEventListener('abort', onAbort);
    await worker.terminate();
  }
}
