import type { FastifyBaseLogger } from 'fastify';
import type { ActionContext } from '../actions/context.ts';
import { type ApiOptions, createApi, createStatusServer } from '../api/server.ts';
import { addConnections, type ConnectionsReader } from '../domain/endpoint-connections.ts';
import type { EngineContext } from '../engine/context.ts';
import { endIdleSessionsOf } from '../engine/end-idle-sessions.ts';
import { learnOnDemand } from '../engine/learn.ts';
import { serveBehindProxy } from '../gateway/http/behind-proxy.ts';
import { createChangeWatch } from '../store/change-watch.ts';
import type { Change, ChangeListener } from '../store/changes.ts';
import type { Log } from '../watch/log-fields.ts';
import { createMetrics, type Metrics } from '../watch/metrics.ts';
import type { CrewAnswers } from './crew-channel.ts';
import { createDirectory } from './directory.ts';
import { listenApi } from './listen-api.ts';
import { mountGateway } from './mount-gateway.ts';
import { type GateOptions, gatewayProcesses, type OpenGate, openGate, proxyRules } from './open-gate.ts';
import { createSchemaReader } from './schema-reader.ts';
import { singleSignOn } from './single-sign-on.ts';
import { operationSamples, poolSamples, usageSamples } from './store-samples.ts';
import { tellTransfers } from './tell-transfers.ts';
import { createTokenDirectory } from './token-directory.ts';
import { createWaker, type ReachedComputes } from './waker.ts';

/** What people and programs reach: the API and the gateway. */
export interface Front {
  readonly api_url: string | undefined;
  readonly gateway_address: string | undefined;
  hear(change: Change): void;
  /** Changes may have been missed. */
  forget(): void;
  /** Changes are heard again, and some may have been missed. */
  lookAgain(): void;
  /** From now on changes are heard. */
  useListener(listener: ChangeListener): void;
  /** What other processes of the gateway may ask this one. */
  readonly answers: CrewAnswers;
  stop(): Promise<void>;
}

interface FrontOptions extends GateOptions {
  readonly store_pools: Parameters<typeof poolSamples>[0];
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
    ? await openMeteredGate(context, engine, options, { directory, waker, tokens }, undo)
    : undefined;
  undo.defer(() => gate?.stop());
  const metrics = createMetrics(
    [
      () => gate?.gateway.samples() ?? [],
      () => engine.ended_operations.samples(),
      // First, so that what is read from the store is not seen in it.
      poolSamples(options.store_pools),
      // The same for all processes: one tells them.
      ...(options.crew ? [] : [operationSamples(context.store, logger), usageSamples(context.store, logger)]),
    ],
    async () => (await gate?.askOthers('metrics', undefined)) ?? [],
  );
  const serves_api = settings.roles.includes('api');
  const changes = createChangeWatch();
  let listening: Awaited<ReturnType<typeof listenApi>> | undefined;
  if ((serves_api || gate) && !options.crew) {
    const log = apiLog(logger);
    const readers = { schemas: createSchemaReader(waker), connections: gate && connectionsReader(gate) };
    const callers = await callersOf(options);
    const apiOptions = { ...callers, context: { ...context, ...readers }, logger: log, metrics, changes };
    const http = await (serves_api ? createApi : createStatusServer)(apiOptions);
    if (gate) mountGateway(http.server, gate);
    const proxy = proxyRules(settings, 'api_proxy_protocol');
    if (proxy) serveBehindProxy(http.server, proxy);
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
      changes.hear(change.id);
      // What an event tells is announced by itself, too.
      if (change.noun !== 'event' && change.noun !== 'delivery')
        for (const part of [directory, tokens, waker]) part.hear(change);
    },
    forget: () => {
      directory.forget();
      tokens.forget();
    },
    lookAgain: () => changes.hearAll(),
    useListener: (opened) => {
      listener = opened;
    },
    answers: answersOf(gate, metrics),
    stop: () => stopping.disposeAsync(),
  };
}

/** Opens the gateway; what passes it is told to our own database until it has stopped. */
async function openMeteredGate(
  context: ActionContext,
  { store }: Pick<EngineContext, 'store'>,
  options: GateOptions,
  parts: Parameters<typeof openGate>[2],
  undo: AsyncDisposableStack,
): Promise<OpenGate> {
  let gate: OpenGate | undefined;
  const teller = tellTransfers(store, () => gate?.gateway, options.logger.child({ room: 'gateway' }));
  undo.defer(() => teller.stop());
  gate = await openGate(context, { ...options, onTransfers: () => teller.begin() }, parts);
  return gate;
}

/** Every log of ours is one of pino's, which is what Fastify takes. */
const apiLog = (logger: Log) => logger.child({ room: 'api' }) as Log & FastifyBaseLogger;

type CallerOptions = Pick<ApiOptions, 'allowed_origins' | 'rate_limits' | 'ready' | 'sso'>;

/** Who may call the API from where, from when on, and how often. */
async function callersOf({ settings, ready }: FrontOptions): Promise<CallerOptions> {
  const { allowed_origins, rate_limit_per_minute, rate_limit_group_per_second } = settings;
  const rate_limits = { per_minute: rate_limit_per_minute, group_per_second: rate_limit_group_per_second };
  return { allowed_origins, rate_limits, ready, sso: await singleSignOn(settings) };
}

/** Who is connected, in this process and in the others. */
function connectionsReader({ gateway, askOthers }: OpenGate): ConnectionsReader {
  return async (id, limit) => {
    const others = await askOthers('connections', { id, limit });
    return addConnections([gateway.connectionsOf(id, limit), ...others], limit);
  };
}

function answersOf(gate: OpenGate | undefined, metrics: Metrics): CrewAnswers {
  return {
    cancel: async (request) => {
      await gate?.gateway.cancel(request);
      return undefined;
    },
    connections: async ({ id, limit }) => gate?.gateway.connectionsOf(id, limit) ?? addConnections([], limit),
    metrics: () => metrics.families(),
  };
}
