import type { ActionContext } from '../actions/context.ts';
import { travelToPoint } from '../actions/travel-to-point.ts';
import { wakeEndpoint } from '../actions/wake-endpoint.ts';
import { CoppiceError, type ErrorName } from '../domain/errors.ts';
import type { BranchId, EndpointId, OperationId } from '../domain/ids.ts';
import { QUOTA_ERRORS } from '../domain/quota-errors.ts';
import type { ComputeDriver, ComputeRef } from '../drivers/compute/contract.ts';
import { type PointText, WakeError, type Waker } from '../gateway/contract.ts';
import type { Change } from '../store/changes.ts';
import { findStartProgress, isInObjectStorage, type StartProgress } from '../store/directory.ts';
import type { CachedDirectory } from './directory.ts';
import { createNews } from './news.ts';

/** SQLSTATE cannot_connect_now: drivers take it for a reason to try again. */
const CANNOT_CONNECT_NOW = '57P03';
/** configuration_limit_exceeded: somebody has to raise it, or a month to begin. */
const QUOTA_USED_UP = '53400';
/** What a refused journey into the past is to a client; for everything else it may try again. */
const JOURNEY_SQLSTATES: Partial<Record<ErrorName, string>> = {
  invalid_request: '22023',
  point_outside_history: '22023',
  points_exceeded: '53400',
  storage_full: '53100',
  not_found: '08004',
};

export interface EndpointWaker extends Waker {
  /** Lets those who wait look at what changed. */
  hear(change: Change): void;
}

/** What a waker needs of the computes. */
export interface ReachedComputes extends Pick<ComputeDriver, 'dial'> {
  /** Ends those of a compute's sessions that are in no transaction. */
  endIdle(compute: ComputeRef, process_ids: readonly number[]): Promise<void>;
}

/**
 * Wakes through the store, like everything else: an action, an operation, an announcement back. However many
 * connections wait for an endpoint, this process asks once and watches once.
 */
export function createWaker(ctx: ActionContext, compute: ReachedComputes, directory: CachedDirectory): EndpointWaker {
  const news = createNews();
  const requests = new Map<EndpointId, Promise<OperationId | undefined>>();
  const watches = new Map<OperationId, Promise<void>>();

  /** Not what was heard: an endpoint that was moved a moment ago must not be reached where it was. */
  const findCompute = async (id: EndpointId) => {
    const endpoint = await directory.findNow(id);
    return endpoint?.observed_state === 'running' ? endpoint.compute : undefined;
  };
  const dial = async (id: EndpointId) => {
    const found = await findCompute(id);
    if (!found) return undefined;
    return compute.dial(found).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED' || error.code === 'ENOENT') return undefined;
      throw error;
    });
  };

  /** Resolves when the start has brought the server up; throws WakeError when it has ended without. */
  const watch = async (operation: OperationId, endpoint: EndpointId): Promise<void> => {
    for (;;) {
      // Taken before the look, so that nothing is missed between the look and the wait.
      const next = news.next([operation, endpoint]);
      const progress = await findStartProgress(ctx.store, operation);
      if (!progress) throw new WakeError('08004', 'the endpoint was deleted while it was being started');
      if (progress.running || progress.status === 'finished') return;
      refuseEnded(progress, operation);
      await next;
    }
  };

  return {
    dial,
    wake: async (id, signal) => {
      for (;;) {
        signal.throwIfAborted();
        const operation = await untilAborted(
          shared(requests, id, () => requestStart(ctx, id)),
          signal,
        );
        if (operation)
          return untilAborted(
            shared(watches, operation, () => watch(operation, id)),
            signal,
          );
        // It is said to run. Then it answers, or it has ended and that will be noticed soon.
        const next = news.next([id]);
        const stream = await dial(id);
        stream?.destroy();
        if (stream) return;
        await untilAborted(next, signal);
      }
    },
    endIdle: async (id, process_ids) => {
      const found = await findCompute(id);
      if (found) await compute.endIdle(found, process_ids);
    },
    comesFromArchive: (id) => isInObjectStorage(ctx.store, id),
    travel: (...journey) => travel(ctx, ...journey),
    hear: ({ id }) => news.hear(id),
  };
}

/** Throws when the start will never bring the server up. */
function refuseEnded({ status, archive_error }: StartProgress, operation: OperationId): void {
  if (status === 'failed') {
    throw new WakeError(CANNOT_CONNECT_NOW, `the compute could not be started; operation_id:"${operation}"`);
  }
  if (archive_error) throw new WakeError(CANNOT_CONNECT_NOW, `the branch stays in the archive: ${archive_error}`);
  if (status === 'cancelled' || status === 'skipped') {
    throw new WakeError(CANNOT_CONNECT_NOW, `the start of the compute was ${status}`);
  }
}

const quotaSqlstate = ({ kind }: CoppiceError): string | undefined =>
  Object.hasOwn(QUOTA_ERRORS, kind) ? QUOTA_USED_UP : undefined;

async function requestStart(ctx: ActionContext, id: EndpointId): Promise<OperationId | undefined> {
  try {
    return (await wakeEndpoint(ctx, id)).operation_id;
  } catch (error) {
    if (!(error instanceof CoppiceError)) throw error;
    throw new WakeError(quotaSqlstate(error) ?? CANNOT_CONNECT_NOW, error.message);
  }
}

/** Throws WakeError. */
async function travel(
  ctx: ActionContext,
  branch_id: BranchId,
  { kind, text }: PointText,
  role: string,
  signal: AbortSignal,
): Promise<EndpointId> {
  for (;;) {
    try {
      return await travelToPoint(ctx, branch_id, { [kind]: text }, role);
    } catch (error) {
      if (!(error instanceof CoppiceError)) throw error;
      // It has waited for that, and goes on: the client knows why, and decides for how long.
      if (error.kind === 'branch_unarchiving' && !signal.aborted) continue;
      const code = JOURNEY_SQLSTATES[error.kind] ?? quotaSqlstate(error) ?? CANNOT_CONNECT_NOW;
      throw new WakeError(code, error.message);
    }
  }
}

/** What is under way already, or begun now; forgotten when it has ended. */
function shared<K, T>(under_way: Map<K, Promise<T>>, key: K, begin: () => Promise<T>): Promise<T> {
  const known = under_way.get(key);
  if (known) return known;
  const begun = begin().finally(() => under_way.delete(key));
  under_way.set(key, begun);
  return begun;
}

function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  return Promise.race([promise, aborted]).finally(() => signal.removeEventListener('abort', abort));
}
