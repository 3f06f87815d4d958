import { EventEmitter } from 'node:events';
import { Logger, makeWorkerUtils, run, type WorkerEvents } from 'graphile-worker';
import type pg from 'pg';
import { enqueueCall, RUN_CALL_TASK } from '../store/calls.ts';
import { findCallsWithoutJob } from '../store/runs.ts';
import {
  findDeadWorkers,
  hasOverdueJob,
  holdOf,
  holdsAbandonedJobs,
  insertWorker,
  notifyPollers,
  releaseOver,
  releaseWorkers,
  updateHeartbeat,
} from '../store/workers.ts';
import type { EngineContext } from './context.ts';
import { startLoop } from './loop.ts';
import { type Cancellations, type OperationRunners, runCall } from './run-call.ts';

const CONCURRENT_CALLS = 8;
const HEARTBEAT_INTERVAL_MS = 4_000;
const SILENCE_UNTIL_DEAD_MS = 30_000;
/** Each of the queue's workers looks by itself. News and due times are told to them. */
const POLL_INTERVAL_MS = 10_000;

export interface Dispatcher {
  /** Takes no new calls, waits for the running ones. */
  stop(): Promise<void>;
}

interface DispatcherOptions {
  readonly runners: OperationRunners;
  readonly cancellations: Cancellations;
  /** Owned by this process alone; what an earlier process of it held is taken over at once. */
  readonly data_directory_id: string;
}

/** Carries calls to `runCall`. The job queue only carries: what runs, and in which order, is decided on our own tables. */
export async function startDispatcher(
  ctx: EngineContext,
  pool: pg.Pool,
  options: DispatcherOptions,
): Promise<Dispatcher> {
  const logger = new Logger(() => (level, message, meta) => {
    if (level === 'error') ctx.logger.error({ err: meta?.error }, message);
  });
  const utils = await makeWorkerUtils({ pgPool: pool, logger });
  let carrier = await startCarrier(ctx, pool, logger, options);

  const takeOver = async () => {
    if (carrier.ended() && carrier.running().length === 0) {
      // The queue gives up after a while without its database; we do not.
      await carrier.stop();
      await utils.forceUnlockWorkers([carrier.id]);
      await releaseWorkers(ctx.store, [carrier.id]);
      carrier = await startCarrier(ctx, pool, logger, options);
    }
    await updateHeartbeat(ctx.store, carrier.id);
    const dead = await findDeadWorkers(ctx.store, {
      own_id: carrier.id,
      data_directory_id: options.data_directory_id,
      silence_ms: SILENCE_UNTIL_DEAD_MS,
    });
    if (dead.length > 0) {
      await utils.forceUnlockWorkers(dead);
      await releaseWorkers(ctx.store, dead);
      await notifyPollers(ctx.store);
    }
    await releaseOver(ctx.store, carrier.id, carrier.attempts());
    if (await holdsAbandonedJobs(ctx.store, carrier.id, carrier.running())) {
      // Unlocks those that are worked on, too: a second job of a call that is held ends at once.
      await utils.forceUnlockWorkers([carrier.id]);
      await notifyPollers(ctx.store);
    }
    if (await hasOverdueJob(ctx.store)) await notifyPollers(ctx.store);
    for (const call of await findCallsWithoutJob(ctx.store)) {
      await enqueueCall(ctx.store, call.id, call.run_at ?? undefined);
    }
  };
  await takeOver();
  const heartbeat = startLoop({ name: 'heartbeat', interval_ms: HEARTBEAT_INTERVAL_MS, logger: ctx.logger }, takeOver);
  return {
    stop: async () => {
      await heartbeat.stop();
      await carrier.stop();
      await releaseWorkers(ctx.store, [carrier.id]);
      await utils.release();
    },
  };
}

/** One life of the job queue's workers in this process. */
interface Carrier {
  /** What jobs are locked by, and calls held for. */
  readonly id: string;
  /** It has given up, and nothing of it runs any more. */
  ended(): boolean;
  /** Ids of the calls that jobs work on at this moment. */
  running(): string[];
  /** The number of the newest attempt, and the holds of those that are not over. */
  attempts(): { newest: number; active: string[] };
  stop(): Promise<void>;
}

async function startCarrier(
  ctx: EngineContext,
  pool: pg.Pool,
  logger: Logger,
  { runners, cancellations, data_directory_id }: DispatcherOptions,
): Promise<Carrier> {
  let id = '';
  let ended = false;
  let attempts = 0;
  let registered: Promise<void> | undefined;
  /** Hold -> call. */
  const running = new Map<string, string>();
  const events: WorkerEvents = new EventEmitter();
  events.on('pool:create', ({ workerPool }) => {
    id = workerPool.id;
    registered = insertWorker(ctx.store, id, data_directory_id);
    registered.catch(() => undefined);
  });
  // Its own shutdown after this can wait for ever for what it lost.
  events.on('pool:fatalError', () => {
    ended = true;
  });
  const carry = async (call_id: string) => {
    attempts += 1;
    const hold = holdOf(id, attempts);
    running.set(hold, call_id);
    try {
      // Nothing is held by a worker that nobody knows: it would be held for ever if we were killed.
      await registered;
      await runCall(ctx, runners, cancellations, { id: call_id, hold });
    } catch (error) {
      // Our database went away. What is still held is released, and gets another job, by the next heartbeat.
      ctx.logger.error({ err: error }, 'a call could not be carried on');
    } finally {
      running.delete(hold);
    }
  };
  const runner = await run({
    events,
    pgPool: pool,
    concurrency: CONCURRENT_CALLS,
    pollInterval: POLL_INTERVAL_MS,
    noHandleSignals: true,
    logger,
    // Else the queue says how a job ended in promises that nobody waits for, and dies of the first that fails.
    preset: { worker: { completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
    taskList: {
      [RUN_CALL_TASK]: (payload) => carry((payload as { call_id: string }).call_id),
    },
    parsedCronItems: [],
  });
  const note = (error: unknown) => ctx.logger.error({ err: error }, 'the job queue stopped and is started again');
  runner.promise.catch(note).finally(() => {
    ended = true;
  });
  await registered?.catch(async (error) => {
    await runner.stop().catch(() => undefined);
    throw error;
  });
  return {
    id,
    ended: () => ended && running.size === 0,
    running: () => [...running.values()],
    attempts: () => ({ newest: attempts, active: [...running.keys()] }),
    stop: async () => {
      if (ended) void runner.kill().catch(() => undefined);
      else await runner.stop();
    },
  };
}
