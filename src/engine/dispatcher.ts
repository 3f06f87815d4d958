import { EventEmitter } from 'node:events';
import { Logger, makeWorkerUtils, run, type WorkerEvents } from 'graphile-worker';
import type pg from 'pg';
import { enqueueCall, RUN_CALL_TASK } from '../store/calls.ts';
import { findCallsWithoutJob } from '../store/runs.ts';
import { findDeadWorkers, insertWorker, notifyPollers, releaseWorkers, updateHeartbeat } from '../store/workers.ts';
import type { EngineContext } from './context.ts';
import { startLoop } from './loop.ts';
import { type Cancellations, type OperationRunners, runCall } from './run-call.ts';

const CONCURRENT_CALLS = 8;
const HEARTBEAT_INTERVAL_MS = 2_000;
const SILENCE_UNTIL_DEAD_MS = 30_000;
const POLL_INTERVAL_MS = 2_000;

export interface Dispatcher {
  /** Takes no new calls, waits for the running ones. */
  stop(): Promise<void>;
}

/**
 * Carries calls to `runCall`. The job queue only carries: what runs, and in which order, is decided on our own tables.
 *
 * @param dataDirectoryId owned by this process alone; what an earlier process of it held is taken over at once
 */
export async function startDispatcher(
  ctx: EngineContext,
  pool: pg.Pool,
  options: { runners: OperationRunners; cancellations: Cancellations; data_directory_id: string },
): Promise<Dispatcher> {
  let workerId = '';
  const events: WorkerEvents = new EventEmitter();
  events.on('pool:create', ({ workerPool }) => {
    workerId = workerPool.id;
  });
  const logger = new Logger(() => (level, message, meta) => {
    if (level === 'error') ctx.logger.error({ err: meta?.error }, message);
  });
  const runner = await run({
    events,
    pgPool: pool,
    concurrency: CONCURRENT_CALLS,
    pollInterval: POLL_INTERVAL_MS,
    noHandleSignals: true,
    logger,
    taskList: {
      [RUN_CALL_TASK]: async (payload) => {
        const { call_id } = payload as { call_id: string };
        await runCall(ctx, options.runners, options.cancellations, { id: call_id, worker_id: workerId });
      },
    },
    parsedCronItems: [],
  });
  await insertWorker(ctx.store, workerId, options.data_directory_id);
  const utils = await makeWorkerUtils({ pgPool: pool, logger });

  const takeOver = async () => {
    await updateHeartbeat(ctx.store, workerId);
    const dead = await findDeadWorkers(ctx.store, {
      own_id: workerId,
      data_directory_id: options.data_directory_id,
      silence_ms: SILENCE_UNTIL_DEAD_MS,
    });
    if (dead.length > 0) {
      await utils.forceUnlockWorkers(dead);
      await releaseWorkers(ctx.store, dead);
      await notifyPollers(ctx.store);
    }
    for (const call of await findCallsWithoutJob(ctx.store)) {
      await enqueueCall(ctx.store, call.id, call.run_at ?? undefined);
    }
  };
  await takeOver();
  const heartbeat = startLoop({ name: 'heartbeat', interval_ms: HEARTBEAT_INTERVAL_MS, logger: ctx.logger }, takeOver);
  return {
    stop: async () => {
      await heartbeat.stop();
      await runner.stop();
      await releaseWorkers(ctx.store, [workerId]);
      await utils.release();
    },
  };
}
