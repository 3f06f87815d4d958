import { parentPort } from 'node:worker_threads';
import { doTreeJob, type TreeJob, type TreeResult } from './tree-job.ts';

/** `stop` becomes 1 when nobody waits for the answer any more. */
export interface TreeRequest {
  readonly job: TreeJob;
  readonly stop: Int32Array<SharedArrayBuffer>;
}

/** An error as plain data: a copied Error loses its `code`. */
export type TreeResponse =
  | { readonly result: TreeResult<TreeJob> }
  | { readonly error: { readonly name: string; readonly message: string; readonly code?: string } };

parentPort?.on('message', ({ job, stop }: TreeRequest) => {
  parentPort!.postMessage(respond(job, stop));
});

function respond(job: TreeJob, stop: TreeRequest['stop']): TreeResponse {
  const checkpoint = () => {
    if (Atomics.load(stop, 0) === 1) throw new Error('stopped');
  };
  try {
    return { result: doTreeJob(job, checkpoint) };
  } catch (error) {
    const { name, message, code } = error as NodeJS.ErrnoException;
    return { error: { name, message, code } };
  }
}
