import pino from 'pino';
import { OPERATION_KINDS } from '../../src/domain/operation-kinds.ts';
import { createCancellations } from '../../src/engine/cancellations.ts';
import type { EngineContext } from '../../src/engine/context.ts';
import { startDispatcher } from '../../src/engine/dispatcher.ts';
import type { OperationRunners, RunOperation } from '../../src/engine/run-call.ts';
import { openStore } from '../../src/store/connection.ts';
import type { TestApi } from './api-server.ts';
import { carryOut } from './project.ts';

/** That an engine worked on an operation; `began` and `ended` are counts of one clock. */
export interface Effect {
  readonly engine: string;
  readonly operation_id: string;
  readonly began: number;
  ended?: number;
}

export interface EffectEngine {
  stop(): Promise<void>;
}

const CONNECTIONS = 12;

/**
 * An engine beside others on the store of an API, which takes and runs operations as every engine does. It has no servers to
 * start: it writes down that it would, and what it would have seen then.
 */
export async function startEffectEngine(
  api: TestApi,
  { name, effects, tick }: { name: string; effects: Effect[]; tick: () => number },
): Promise<EffectEngine> {
  const own = openStore({
    connection: api.store.connection,
    application_name: `engine ${name}`,
    connections_max: CONNECTIONS,
    durable: true,
    onError: (error) => console.error('an engine lost a connection', error),
  });
  const run: RunOperation = async (_ctx, operation, signal) => {
    const effect: Effect = { engine: name, operation_id: operation.id, began: tick() };
    effects.push(effect);
    signal.throwIfAborted();
    await carryOut(api, operation);
    effect.ended = tick();
    return 'finished';
  };
  const runners = Object.fromEntries(Object.keys(OPERATION_KINDS).map((action) => [action, run]));
  const ctx = {
    store: own.store,
    intent: own.store,
    ended_operations: { note: () => undefined },
    logger: pino({ level: 'silent' }),
  } as unknown as EngineContext;
  const dispatcher = await startDispatcher(ctx, own.pool, {
    runners: runners as OperationRunners,
    cancellations: createCancellations(own.store),
    data_directory_id: name,
  });
  return { stop: () => dispatcher.stop().finally(() => own.close()) };
}
