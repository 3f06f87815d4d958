import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import type { TreeJob, TreeResult } from './tree-job.ts';
import type { TreeRequest, TreeResponse } from './tree-worker.ts';

/**
 * Threads for work on trees. Measured on 2 cores: a tree of 1,200 files is cloned in 30 ms by one thread with synchronous
 * calls, which leaves the main thread to the connections of others. They start when first needed, do one job at a time, and never keep
 * the process alive when idle.
 */
const WORKERS_MAX = Math.min(4, Math.max(2, availableParallelism()));
const WAITING_MAX = 10_000;

const idle: Worker[] = [];
const waiting: ((worker: Worker) => void)[] = [];
let started = 0;

/** Starts the first thread ahead of the first job, which would otherwise wait for it as long as for a whole clone. */
export function warmTreeWorkers(): void {
  if (started > 0) return;
  const worker = startWorker();
  worker.unref();
  idle.push(worker);
}

/** Runs a job on a thread. Rejects with the signal's reason when aborted; the thread has stopped by then. */
export async function runTreeJob<Job extends TreeJob>(job: Job, signal?: AbortSignal): Promise<TreeResult<Job>> {
  signal?.throwIfAborted();
  const worker = await takeWorker();
  const stop = new Int32Array(new SharedArrayBuffer(4));
  const onAbort = () => Atomics.store(stop, 0, 1);
  signal?.addEventListener('abort', onAbort);
  if (signal?.aborted) onAbort();
  try {
    const response = await ask(worker, { job, stop });
    signal?.throwIfAborted();
    if ('result' in response) return response.result as TreeResult<Job>;
    const { message, ...rest } = response.error;
    throw Object.assign(new Error(message), rest);
  } finally {
    signal?.removeEventListener('abort', onAbort);
  }
}

async function takeWorker(): Promise<Worker> {
  const ready = idle.pop();
  if (ready) return ready;
  if (started < WORKERS_MAX) return startWorker();
  if (waiting.length >= WAITING_MAX) throw new Error(`${WAITING_MAX} jobs on volumes are waiting already`);
  return new Promise((resolve) => waiting.push(resolve));
}

function startWorker(): Worker {
  started += 1;
  const worker = new Worker(new URL('./tree-worker.ts', import.meta.url), { name: 'volume trees' });
  // What happens to a job is told to its caller; without a listener the error of an idle thread would end the process.
  worker.on('error', () => {});
  worker.once('exit', () => {
    started -= 1;
    const index = idle.indexOf(worker);
    if (index >= 0) idle.splice(index, 1);
    const next = waiting.shift();
    if (next) next(startWorker());
  });
  return worker;
}

function giveBack(worker: Worker): void {
  const next = waiting.shift();
  if (next) next(worker);
  else idle.push(worker);
}

function ask(worker: Worker, request: TreeRequest): Promise<TreeResponse> {
  return new Promise((resolve, reject) => {
    const onMessage = (response: TreeResponse) => {
      done();
      giveBack(worker);
      resolve(response);
    };
    // Out of memory and the like; the thread is gone, and its `exit` makes room for another.
    const onError = (error: unknown) => {
      done();
      reject(new Error('the thread that works on volumes ended', { cause: error }));
    };
    const done = () => {
      worker.off('message', onMessage).off('error', onError).off('exit', onError);
      worker.unref();
    };
    worker.on('message', onMessage).on('error', onError).on('exit', onError);
    worker.ref();
    worker.postMessage(request);
  });
}
