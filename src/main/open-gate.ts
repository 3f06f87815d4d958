import { join } from 'node:path';
import type { ActionContext } from '../actions/context.ts';
import { addressList } from '../domain/address-rules.ts';
import type { Settings } from '../domain/settings.ts';
import { type Certificates, fileCertificates, localCertificates } from '../gateway/certificates.ts';
import type { CancelRequest, GatewayPeers } from '../gateway/contract.ts';
import { type GatewayOptions, startGateway } from '../gateway/gateway.ts';
import type { ProxyRules } from '../gateway/proxy-protocol.ts';
import type { Log } from '../watch/log-fields.ts';
import { type GatewayCrew, startGatewayCrew } from './gateway-crew.ts';
import type { Gate } from './mount-gateway.ts';

/** A process that serves the Postgres port together with others. */
export interface CrewMate extends GatewayPeers {
  /** How many processes divide an endpoint's pool among them. */
  readonly processes: number;
}

export interface GateOptions {
  readonly settings: Settings;
  readonly logger: Log;
  /** The data directory. */
  readonly directory: string;
  /** There may be transfers to tell from now on. */
  readonly onTransfers?: () => void;
  /** Where this process is one of several that serve the Postgres port: the others. */
  readonly crew?: CrewMate;
}

/** The gateway of this process, with the workers that it has. */
export interface OpenGate extends Gate {
  /** Asks the workers, if there are any. */
  readonly askOthers: GatewayCrew['askAll'];
  /** Lets transactions end, then ends all, here and in the workers. */
  stop(): Promise<void>;
}

/** How many processes divide an endpoint's pool: several workers, and the main process, which has what comes over HTTP. */
export const gatewayProcesses = ({ settings, crew }: Pick<GateOptions, 'settings' | 'crew'>): number =>
  crew?.processes ?? (settings.gateway_workers === 1 ? 1 : settings.gateway_workers + 1);

/** Opens the gateway in this process or, where several are asked for, in workers; HTTP is always this one's. */
export async function openGate(
  { vault }: ActionContext,
  { settings, logger, directory, crew: mate, onTransfers }: GateOptions,
  parts: Pick<GatewayOptions, 'directory' | 'waker' | 'tokens'>,
): Promise<OpenGate> {
  await using undo = new AsyncDisposableStack();
  const listens = mate !== undefined || settings.gateway_workers === 1;
  const log = logger.child({ room: 'gateway' });
  let crew: GatewayCrew | undefined;
  const peers = listens ? mate : { slot: 0, cancel: async (request: CancelRequest) => crew?.cancel(request) };
  const certificates = await certificatesOf(settings, directory);
  const gateway = await startGateway({
    listen: listens ? settings.listen.map((host) => ({ host, port: settings.pg_port })) : [],
    domain: settings.domain,
    require_tls: settings.require_tls,
    proxy: proxyRules(settings, 'proxy_protocol'),
    certificates,
    ...parts,
    peers,
    onTransfers,
    logger: log,
    mock_secret: vault.derive('answers to unknown roles'),
  });
  undo.defer(() => gateway.stop());
  if (!listens) {
    crew = await startGatewayCrew(settings, { cancel: (request) => gateway.cancel(request), logger: log });
  }
  undo.move();
  return {
    gateway,
    certificates,
    askOthers: async (kind, asked) => (await crew?.askAll(kind, asked)) ?? [],
    stop: async () => {
      await Promise.all([crew?.stop(), gateway.stop({ drain: true })]);
    },
  };
}

/** Whose headers of the PROXY protocol are taken at one of the two ports; undefined when none are. */
export function proxyRules(settings: Settings, port: 'proxy_protocol' | 'api_proxy_protocol'): ProxyRules | undefined {
  if (settings[port] === 'off') return undefined;
  return { required: settings[port] === 'required', from: addressList(settings.proxy_protocol_from) };
}

/** The operator's certificates where any are given, else those of the local authority. */
async function certificatesOf({ tls_cert, tls_key, domain }: Settings, dataDirectory: string): Promise<Certificates> {
  if (tls_cert && tls_key) {
    return fileCertificates(tls_cert.map((certificate, at) => ({ certificate, key: tls_key[at]! })));
  }
  return localCertificates({ directory: join(dataDirectory, 'certificates'), domain });
}
