import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { FastifyInstance, InjectOptions } from 'fastify';
import pino from 'pino';
import { bootstrap } from '../../src/actions/bootstrap.ts';
import type { ActionContext, InstallationFacts } from '../../src/actions/context.ts';
import type { RateLimitSettings } from '../../src/api/rate-limits.ts';
import { createApi } from '../../src/api/server.ts';
import { newApiKey, Vault } from '../../src/domain/credentials.ts';
import { addConnections, type ConnectionsReader } from '../../src/domain/endpoint-connections.ts';
import { CoppiceError } from '../../src/domain/errors.ts';
import type { SendLetter } from '../../src/domain/mail.ts';
import type { SingleSignOn } from '../../src/domain/single-sign-on.ts';
import { createChangeWatch } from '../../src/store/change-watch.ts';
import { listenForChanges } from '../../src/store/changes.ts';
import type { Metrics } from '../../src/watch/metrics.ts';
import { assertInContract } from './openapi-contract.ts';
import { type StoreServer, startStoreServer, type TestStore } from './store.ts';

export interface CallOptions {
  /** The API key, or the cookie of a session; by default the first user's key. null sends none. */
  readonly key?: string | null;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

export interface CallAnswer {
  readonly status: number;
  readonly headers: Record<string, string | string[] | number | undefined>;
  /** Parsed JSON; undefined without a body. */
  // biome-ignore lint/suspicious/noExplicitAny: tests reach into it, and its shape is checked against the contract.
  readonly body: any;
}

/** The management API over a store of its own, without an engine: operations stay as they were written. */
export interface TestApi {
  readonly app: FastifyInstance;
  readonly context: ActionContext;
  readonly store: TestStore;
  /** A personal key of the first user. */
  readonly key: string;
  /** Lines that the server logged. */
  readonly log: string[];
  /** Calls the API, in process; `path` is below /api/v2. Every answer is held against the public OpenAPI file; a 500 fails. */
  call(method: NonNullable<InjectOptions['method']>, path: string, options?: CallOptions): Promise<CallAnswer>;
  close(): Promise<void>;
}

export interface TestApiOptions {
  readonly installation?: Partial<InstallationFacts>;
  readonly ready?: () => boolean;
  readonly allowed_origins?: readonly string[];
  /** What the gateway says; nobody is connected unless given. */
  readonly connections?: ConnectionsReader;
  readonly metrics?: Metrics;
  readonly rate_limits?: RateLimitSettings;
  readonly mail?: SendLetter;
  readonly sso?: SingleSignOn;
  /** What gives the store, and is stopped at the end; a server of its own unless given. */
  readonly on?: Pick<StoreServer, 'createStore' | 'stop'>;
}

const INSTALLATION: InstallationFacts = {
  region_id: 'local',
  public_url: 'http://localhost:7432',
  domain: 'localhost',
  pg_port: 5432,
  domain_resolves: true,
  min_suspend_timeout_seconds: 60,
  time_travel_timeout_seconds: 30,
  object_storage: true,
  default_pg_version: 17,
  distributions: new Map([
    [16, 'test-16'],
    [17, 'test-17'],
    [18, 'test-18'],
  ]),
};

/** Starts a store server and the API over it; nothing is left when it throws. */
export async function startTestApi(options: TestApiOptions = {}): Promise<TestApi> {
  const server = options.on ?? (await startStoreServer());
  try {
    const store = await server.createStore();
    const key = newApiKey();
    await bootstrap(store.store, { email: 'owner@example.test', api_key: key });
    const context: ActionContext = {
      store: store.store,
      vault: new Vault(randomBytes(32)),
      installation: { ...INSTALLATION, ...options.installation },
      mail: options.mail,
      connections: options.connections ?? (async (_id, limit) => addConnections([], limit)),
      // There is no engine here that could look into the past.
      history: { resolve: () => Promise.reject(new CoppiceError('point_outside_history')) },
    };
    const api = await serve({ context, store, key, options });
    return { ...api, close: () => api.close().finally(() => server.stop()) };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** Another process of the same API, on the same store. It is to be closed before the first. */
export function startSecondApi(
  { context, store, key }: TestApi,
  installation: Partial<InstallationFacts> = {},
): Promise<TestApi> {
  const own = { ...context, installation: { ...context.installation, ...installation } };
  return serve({ context: own, store, key, options: {} });
}

async function serve({
  context,
  store,
  key,
  options,
}: Pick<TestApi, 'context' | 'store' | 'key'> & { options: TestApiOptions }): Promise<TestApi> {
  const log: string[] = [];
  const changes = createChangeWatch();
  const listener = await listenForChanges(store.connection, {
    onChange: ({ id }) => changes.hear(id),
    onGap: () => undefined,
    onAgain: () => changes.hearAll(),
  });
  const app = await createApi({
    context,
    changes,
    ready: options.ready ?? (() => true),
    logger: pino({ level: 'debug' }, { write: (line: string) => log.push(line) }),
    allowed_origins: options.allowed_origins,
    metrics: options.metrics,
    rate_limits: options.rate_limits,
    sso: options.sso,
  });
  return {
    app,
    context,
    store,
    key,
    log,
    call: async (method, path, call = {}) => {
      const answer = await callApi(app, key, method, path, call);
      assert.notEqual(
        answer.status,
        500,
        log.findLast((line) => line.includes('"err"')),
      );
      return answer;
    },
    close: () => app.close().finally(() => listener.close()),
  };
}

/** A cookie comes with the page that it is sent from. */
function credentials(key: string | null): Record<string, string> {
  if (key === null) return {};
  return key.includes('=') ? { cookie: key, origin: INSTALLATION.public_url } : { authorization: `Bearer ${key}` };
}

async function callApi(
  app: FastifyInstance,
  defaultKey: string,
  method: NonNullable<InjectOptions['method']>,
  path: string,
  { key = defaultKey, body, headers }: CallOptions,
): Promise<CallAnswer> {
  const url = `/api/v2${path}`;
  const response = await app.inject({
    method,
    url,
    headers: { ...credentials(key), ...headers },
    ...(body === undefined ? {} : { payload: body as InjectOptions['payload'] }),
  });
  const answer = {
    status: response.statusCode,
    headers: response.headers,
    body: response.payload === '' ? undefined : response.json(),
  };
  assertInContract({ method, url, status: answer.status, body: answer.body });
  return answer;
}
