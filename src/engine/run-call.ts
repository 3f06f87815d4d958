import { CoppiceError } from '../domain/errors.ts';
import type { CallId } from '../domain/ids.ts';
import { OPERATION_KINDS, type OperationAction, retryDelayMs } from '../domain/operation-kinds.ts';
import { ComputeStartError } from '../drivers/compute/contract.ts';
import { observeMaskingFailed } from '../store/branch-maskings.ts';
import { abandonRestore } from '../store/branch-restores.ts';
import { enqueueCall } from '../store/calls.ts';
import {
  beginNextOperation,
  endOperation,
  failOperation,
  findPlannedBranches,
  findWaitingCalls,
  finishCall,
  postponeOperation,
  takeCall,
} from '../store/runs.ts';
import type { OperationRow } from '../store/schema.ts';
import type { EngineContext } from './context.ts';
import { lookForJobsAt } from './look-for-jobs.ts';
import { ConfigRefused } from './server.ts';
import { stopPoint } from './stop-point.ts';

/** What an action says at its end: done, or nothing was to be done. */
export type Outcome = 'finished' | 'skipped';

/** One action of the API: makes true what the operation asks for. Safe to run twice; stops soon after the signal. */
export type RunOperation = (ctx: EngineContext, operation: OperationRow, signal: AbortSignal) => Promise<Outcome>;

export type OperationRunners = Readonly<Record<OperationAction, RunOperation>>;

/** Lets running operations be told that they were cancelled. */
export interface Cancellations {
  /** A signal that fires when the operation is cancelled; release it when the operation has ended. */
  watch(operationId: string): { signal: AbortSignal; release(): void };
}

/**
 * Runs a call's operations in order. Ends quietly when the call is finished, held by somebody else, or must wait:
 * whoever finishes first enqueues those that wait.
 */
export async function runCall(
  ctx: EngineContext,
  runners: OperationRunners,
  cancellations: Cancellations,
  call: { id: CallId; hold: string },
): Promise<void> {
  if (!(await takeCall(ctx.store, call.id, call.hold))) return;
  for (;;) {
    const operation = await beginNextOperation(ctx.store, call.id);
    if (!operation) break;
    const ended = await runOperation(ctx, runners, cancellations, operation);
    if (!ended) return;
    // Its claims are free, though the call may have more to do.
    await wakeWaiting(ctx, operation.project_id);
  }
  await wakeWaiting(ctx, await finishCall(ctx.store, call.id));
}

async function wakeWaiting(ctx: EngineContext, projectId: string): Promise<void> {
  for (const id of await findWaitingCalls(ctx.store, projectId)) await enqueueCall(ctx.store, id);
}

/** Runs one attempt. False when the operation will be tried again later, and the call was given back. */
async function runOperation(
  ctx: EngineContext,
  runners: OperationRunners,
  cancellations: Cancellations,
  operation: OperationRow,
): Promise<boolean> {
  if (operation.status === 'cancelling') {
    await end(ctx, operation, 'cancelled');
    return true;
  }
  const kind = OPERATION_KINDS[operation.action];
  const cancellation = cancellations.watch(operation.id);
  const signal = AbortSignal.any([cancellation.signal, AbortSignal.timeout(kind.deadline_ms)]);
  try {
    stopPoint(`${operation.action}:begin`);
    const outcome = await runners[operation.action](ctx, operation, signal);
    stopPoint(`${operation.action}:end`);
    await end(ctx, operation, outcome);
    return true;
  } catch (error) {
    if (cancellation.signal.aborted) {
      await end(ctx, operation, 'cancelled');
      return true;
    }
    return await recordFailure(ctx, operation, error);
  } finally {
    cancellation.release();
  }
}

async function end(ctx: EngineContext, operation: OperationRow, status: Outcome | 'cancelled'): Promise<void> {
  await endOperation(ctx.store, operation.id, status);
  ctx.ended_operations.note(operation, status);
}

async function recordFailure(ctx: EngineContext, operation: OperationRow, error: unknown): Promise<boolean> {
  const failures = operation.failures_count + 1;
  const fields = { operation_id: operation.id, action: operation.action, attempt: failures, err: error };
  if (failures >= OPERATION_KINDS[operation.action].attempts || !mayRetry(error)) {
    ctx.logger.error(fields, 'operation failed');
    await giveUp(ctx, operation, reasonFor(error));
    ctx.ended_operations.note(operation, 'failed');
    return true;
  }
  const retry_at = new Date(Date.now() + retryDelayMs(failures));
  ctx.logger.warn(fields, 'operation will be tried again');
  await postponeOperation(ctx.store, operation, reasonFor(error), retry_at);
  await enqueueCall(ctx.store, operation.call_id, retry_at);
  lookForJobsAt(ctx, retry_at);
  return false;
}

/** Operations whose failure leaves a masked branch private. */
const MAKES_MASKED: ReadonlySet<OperationAction> = new Set<OperationAction>(['create_branch', 'import_data']);

/** Durable: the branch of a restore that failed is what it was, from the moment on that the failure is known. */
async function giveUp(ctx: EngineContext, operation: OperationRow, reason: string): Promise<void> {
  await ctx.intent.transaction().execute(async (trx) => {
    if (operation.action === 'create_branch') await abandonRestore(trx, operation);
    if (operation.branch_id && MAKES_MASKED.has(operation.action)) {
      await observeMaskingFailed(trx, operation.branch_id, reason);
    }
    // What was to be restored from, or to be a parent, does not come back.
    if (operation.action === 'timeline_unarchive' || operation.action === 'tenant_reattach') {
      for (const planned of await findPlannedBranches(trx, operation.call_id)) await abandonRestore(trx, planned);
    }
    await failOperation(trx, operation, reason);
  });
}

function mayRetry(error: unknown): boolean {
  return !(error instanceof CoppiceError) || error.retry === 'safe';
}

/** The text that a caller sees. What was not written for people shows as a fixed sentence; the log has the rest. */
function reasonFor(error: unknown): string {
  if (error instanceof CoppiceError || error instanceof ConfigRefused) return error.message;
  if (error instanceof ComputeStartError) return [error.message, ...error.log].join('\n');
  return 'internal error, see the server log under this operation id';
}
