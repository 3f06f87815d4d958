import { join } from 'node:path';
import Fastify, { type FastifyBaseLogger } from 'fastify';
import type { ActionContext } from '../actions/context.ts';
import { createApi } from '../api/server.ts';
import { addressList } from '../domain/address-rules.ts';
import { LIMITS } from '../domain/limits.ts';
import type { Settings } from '../domain/settings.ts';
import type { EngineContext } from '../engine/context.ts';
import { learnOnDemand } from '../engine/learn.ts';
import { type Certificates, fileCertificates, localCertificates } from '../gateway/certificates.ts';
import { type GatewayOptions, startGateway } from '../gateway/gateway.ts';
import type { ProxyRules } from '../gateway/proxy-protocol.ts';
import type { Change, ChangeListener } from '../store/changes.ts';
import type { Log } from '../watch/log-fields.ts';
import { createDirectory } from './directory.ts';
import { listenApi } from './listen-api.ts';
import { type Gate, mountGateway } from './mount-gateway.ts';
import { createSchemaReader } from './schema-reader.ts';
import { createTokenDirectory } from './token-directory.ts';
import { createWaker } from './waker.ts';

/** What people and programs reach: the API and the gateway. */
export interface Front {
  readonly api_url: string | undefined;
  readonly gateway_address: string | undefined;
  hear(change: Change): void;
  /** Changes may have been missed. */
  forget(): void;
  /** From now on changes are heard. */
  useListener(listener: ChangeListener): void;
  stop(): Promise<void>;
}

interface FrontOptions {
  readonly settings: Settings;
  readonly logger: Log;
  readonly directory: string;
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
  });
  const waker = createWaker(context, engine.compute, directory);
  const tokens = createTokenDirectory(context.store, context.vault, { isFresh });
  const gate = settings.roles.includes('gateway')
    ? await openGate(context, options, { directory, waker, tokens })
    : undefined;
  undo.defer(() => gate?.gateway.stop());
  const serves_api = settings.roles.includes('api');
  let listening: Awaited<ReturnType<typeof listenApi>> | undefined;
  if (serves_api || gate) {
    // Every log of ours is one of pino's, which is what Fastify takes.
    const log = logger.child({ room: 'api' }) as Log & FastifyBaseLogger;
    const schemas = createSchemaReader(waker);
    const apiOptions = { context: { ...context, schemas }, ready: options.ready, logger: log };
    const http = serves_api ? await createApi(apiOptions) : Fastify({ requestTimeout: LIMITS.request_timeout_ms });
    if (gate) mountGateway(http.server, gate);
    listening = await listenApi(http, settings.listen, settings.api_port);
    undo.defer(() => listening?.close());
    // First of all: an HTTP server has closed when the last of its connections has.
    undo.defer(() => gate?.gateway.stop());
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
    stop: () => stopping.disposeAsync(),
  };
}

async function openGate(
  { vault }: ActionContext,
  { settings, logger, directory: dataDirectory }: FrontOptions,
  parts: Pick<GatewayOptions, 'directory' | 'waker' | 'tokens'>,
): Promise<Gate> {
  const certificates = await certificatesOf(settings, dataDirectory);
  const gateway = await startGateway({
    listen: settings.listen.map((host) => ({ host, port: settings.pg_port })),
    domain: settings.domain,
    require_tls: settings.require_tls,
    proxy: proxyRules(settings),
    certificates,
    ...parts,
    logger: logger.child({ room: 'gateway' }),
    mock_secret: vault.derive('answers to unknown roles'),
  });
  return { gateway, certificates };
}

function proxyRules({ proxy_protocol, proxy_protocol_from }: Settings): ProxyRules | undefined {
  if (proxy_protocol === 'off') return undefined;
  return { required: proxy_protocol === 'required', from: addressList(proxy_protocol_from) };
}

/** The operator's certificates where any are given, else those of the local authority. */
async function certificatesOf({ tls_cert, tls_key, domain }: Settings, dataDirectory: string): Promise<Certificates> {
  if (tls_cert && tls_key) {
    return fileCertificates(tls_cert.map((certificate, at) => ({ certificate, key: tls_key[at]! })));
  }
  return localCertificates({ directory: join(dataDirectory, 'certificates'), domain });
}
