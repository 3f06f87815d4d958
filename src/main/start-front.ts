import Fastify, { type FastifyBaseLogger } from 'fastify';
import type { ActionContext } from '../actions/context.ts';
import { createApi } from '../api/server.ts';
import { LIMITS } from '../domain/limits.ts';
import type { EngineContext } from '../engine/context.ts';
import { endIdleSessionsOf } from '../engine/end-idle-sessions.ts';
import { learnOnDemand } from '../engine/learn.ts';
import type { Change, ChangeListener } from '../store/changes.ts';
import type { Log } from '../watch/log-fields.ts';
import type { BackendKey } from '../wire/backend-messages.ts';
import { createDirectory } from './directory.ts';
import { listenApi } from './listen-api.ts';
import { mountGateway } from './mount-gateway.ts';
import { type GateOptions, gatewayProcesses, openGate } from './open-gate.ts';
import { createSchemaReader } from './schema-reader.ts';
import { createTokenDirectory } from './token-directory.ts';
import { createWaker, type ReachedComputes } from './waker.ts';

/** What people and programs reach: the API and the gateway. */
export interface Front {
  readonly api_url: string | undefined;
  readonly gateway_address: string | undefined;
  hear(change: Change): void;
  /** Changes may have been missed. */
  forget(): void;
  /** From now on changes are heard. */
  useListener(listener: ChangeListener): void;
  /** Cancels what a key of the gateway of this process stands for. */
  cancel(key: BackendKey): Promise<void>;
  stop(): Promise<void>;
}

interface FrontOptions extends GateOptions {
  readonly ready: () => boolean;
}

export async function startFront(context: ActionContext, engine: EngineContext, options: FrontOptions): Promise<Front> {
  const { settings, logger } = options;
  await using undo = new AsyncDisposableStack();
  let listener: ChangeListener | undefined;
  const isFresh = () => listener?.listening === true;
  const directory = createDirectory(context.store, {
    isFresh,
    learn: learnOnDemand(engine),
    processes: gatewayProcesses(options),
  });
  const reached: ReachedComputes = {
    dial: (compute) => engine.compute.dial(compute),
    endIdle: (compute, process_ids) => endIdleSessionsOf(engine, compute, process_ids),
  };
  const waker = createWaker(context, reached, directory);
  const tokens = createTokenDirectory(context.store, context.vault, { isFresh });
  const gate = settings.roles.includes('gateway')
    ? await openGate(context, options, { directory, waker, tokens })
    : undefined;
  undo.defer(() => gate?.stop());
  const serves_api = settings.roles.includes('api');
  let listening: Awaited<ReturnType<typeof listenApi>> | undefined;
  if ((serves_api || gate) && !options.crew) {
    // Every log of ours is one of pino's, which is what Fastify takes.
    const log = logger.child({ room: 'api' }) as Log & FastifyBaseLogger;
    const schemas = createSchemaReader(waker);
    const apiOptions = { context: { ...context, schemas }, ready: options.ready, logger: log };
    const http = serves_api ? await createApi(apiOptions) : Fastify({ requestTimeout: LIMITS.request_timeout_ms });
    if (gate) mountGateway(http.server, gate);
    listening = await listenApi(http, settings.listen, settings.api_port);
    undo.defer(() => listening?.close());
    // First of all: an HTTP server has closed when the last of its connections has.
    undo.defer(() => gate?.stop());
  }
  const stopping = undo.move();
  return {
    api_url: serves_api ? `http://${settings.domain}:${listening!.port}` : undefined,
    gateway_address: gate && `${settings.domain}:${settings.pg_port}`,
    hear: (change) => {
      directory.hear(change);
      tokens.hear(change);
      waker.hear(change);
    },
    forget: () => {
      directory.forget();
      tokens.forget();
    },
    useListener: (opened) => {
      listener = opened;
    },
    cancel: async (key) => gate?.gateway.cancel(key),
    stop: () => stopping.disposeAsync(),
  };
}
