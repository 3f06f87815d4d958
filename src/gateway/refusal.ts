import { type ErrorFields, errorResponse } from '../wire/backend-messages.ts';
import { ProtocolError } from '../wire/message.ts';
import { WakeError } from './contract.ts';

/** Whose doing the end of a connection was; for the log and the metrics. */
export type ErrorKind = 'user' | 'clientdisconnect' | 'ratelimit' | 'controlplane' | 'compute' | 'shutdown';

/** A connection ends with this error, which the client is told. */
export class Refusal extends Error {
  readonly kind: ErrorKind;
  /** SQLSTATE */
  readonly code: string;
  readonly hint: string | undefined;
  /** Over HTTP, where the kind does not tell. */
  readonly http_status: number | undefined;
  /** Somebody tried to get in who may be guessing. */
  readonly guess: boolean;

  constructor(
    kind: ErrorKind,
    code: string,
    message: string,
    options: ErrorOptions & { hint?: string; http_status?: number; guess?: true } = {},
  ) {
    super(message, options);
    this.name = 'Refusal';
    this.kind = kind;
    this.code = code;
    this.hint = options.hint;
    this.http_status = options.http_status;
    this.guess = options.guess ?? false;
  }
}

/** The compute refused the login; its own ErrorResponse goes to the client. */
export class ComputeRefusal extends Error {
  readonly fields: ErrorFields;
  readonly response: Buffer;

  constructor(fields: ErrorFields, response: Buffer) {
    super(fields.message);
    this.name = 'ComputeRefusal';
    this.fields = fields;
    this.response = response;
  }
}

/** The client left before its session began; nobody is there to be told. */
export class ClientGone extends Error {
  constructor(options?: ErrorOptions) {
    super('the client closed the connection', options);
    this.name = 'ClientGone';
  }
}

export const refusals = {
  insecure: () => new Refusal('user', '08004', 'connection is insecure (try using `sslmode=require`)'),
  endpointMissing: () =>
    new Refusal(
      'user',
      '08004',
      'Endpoint ID is not specified. Connect to the host name of the endpoint with a client that sends it in TLS (SNI), or name the endpoint in the connection string: `?options=endpoint%3D<endpoint-id>`.',
    ),
  endpointInconsistent: (host: string, option: string) =>
    new Refusal(
      'user',
      '08004',
      `Inconsistent project name inferred from SNI ('${host}') and project option ('${option}').`,
    ),
  endpointMalformed: (name: string) =>
    new Refusal('user', '08004', `Project name ('${name}') must contain only alphanumeric characters and hyphen.`),
  branchWithoutPoint: (id: string) =>
    new Refusal('user', '08004', `'${id}' is a branch, which is connected to at a point of its history only`, {
      hint: 'Give a point: `options=neon_timestamp:<time>` or `options=neon_lsn:<lsn>`. For its present connect to an endpoint of the branch.',
    }),
  pointOfEndpoint: (id: string) =>
    new Refusal(
      'user',
      '08004',
      `'${id}' is an endpoint, which has no past: neon_timestamp and neon_lsn go with a branch`,
      {
        hint: 'Connect to the same host with the id of the branch in place of that of the endpoint.',
      },
    ),
  pointAmbiguous: () => new Refusal('user', '22023', 'Give one of neon_timestamp and neon_lsn, once.'),
  optionUnknown: (name: string) =>
    new Refusal('user', '22023', `unsupported startup parameter in options: ${name}`, {
      hint: 'Known are neon_timestamp and neon_lsn.',
    }),
  replicationOfPast: () => new Refusal('user', '0A000', 'The past of a branch cannot be replicated from.'),
  userMissing: () => new Refusal('user', '28000', "Parameter 'user' is missing in startup packet."),
  passwordWrong: (user: string) =>
    new Refusal('user', '28P01', `password authentication failed for user '${user}'`, { guess: true }),
  proxyHeaderMalformed: (problem: string) =>
    new Refusal('user', '08P01', `The header of the PROXY protocol cannot be read: ${problem}.`),
  proxyHeaderMissing: () =>
    new Refusal('user', '08P01', 'Connections have to begin with a header of the PROXY protocol, version 2.'),
  proxyNotTrusted: (address: string) =>
    new Refusal('user', '28000', `The PROXY protocol is not taken from ${address}.`, {
      hint: 'The addresses of load balancers are in COPPICE_PROXY_PROTOCOL_FROM.',
    }),
  addressNotAllowed: (address: string) =>
    new Refusal('user', '28000', `This IP address ${address} is not allowed to connect to this endpoint.`, {
      hint: 'Add it to the allow list of the project (`settings.allowed_ips`). A client may come over IPv4 and over IPv6: both addresses have to be there.',
    }),
  networkBlocked: (address: string) =>
    new Refusal('user', '28000', `This endpoint is not allowed to be reached from a public network: ${address}`, {
      hint: 'The project blocks public connections (`settings.block_public_connections`). Connect from a private network.',
    }),
  authenticationTimeout: () => new Refusal('user', '57014', 'Authentication timed out'),
  handshakeTimeout: () => new Refusal('user', '57014', 'The startup packet did not arrive in time'),
  directTlsWithoutAlpn: () =>
    new Refusal('user', '08P01', 'A direct TLS connection must negotiate the ALPN protocol `postgresql`.'),
  copyOverHttp: () =>
    new Refusal('user', '0A000', 'COPY from or to the client is not available over HTTP.', {
      hint: 'Use a WebSocket or a direct connection.',
    }),
  requestTooLarge: (limit_bytes: number) =>
    new Refusal('user', '54000', `request is too large (max is ${limit_bytes} bytes)`, { http_status: 413 }),
  requestTimeout: () => new Refusal('user', '57014', 'The request did not arrive in time', { http_status: 408 }),
  responseTooLarge: (limit_bytes: number) =>
    new Refusal('user', '54000', `response is too large (max is ${limit_bytes} bytes)`, { http_status: 507 }),
  tooMuchHeld: () =>
    new Refusal('ratelimit', '53200', 'Too many large requests at the same time. Please try again later.', {
      http_status: 503,
    }),
  passwordMissing: () =>
    new Refusal('user', '28000', 'missing authentication credentials: required password', {
      hint: 'The connection string names no password.',
    }),
  passwordAndToken: () =>
    new Refusal('user', '28000', 'Give a password in the connection string or a token in Authorization, not both.'),
  tokensNotTaken: () =>
    new Refusal('user', '0A000', 'Tokens are not taken here: give a password in the connection string.'),
  tokenInvalid: (reason: string) => new Refusal('user', '28000', `the token is not valid: ${reason}`),
  tokenOfNobody: () =>
    new Refusal('user', '28000', 'the token is not valid: nobody is known whose tokens are taken here', {
      guess: true,
    }),
  tokenRoleWithoutKeys: (user: string) =>
    new Refusal('user', '28000', `The role '${user}' cannot log in by a token.`, {
      hint: 'It may not log in, or its password is not stored: reset it through the API, or have the role made with the issuer.',
    }),
  keysUnavailable: (cause: unknown) =>
    new Refusal('controlplane', '08006', "The keys of the token's issuer could not be fetched.", { cause }),
  connectionStringMissing: () => new Refusal('user', '08P01', 'The header Neon-Connection-String is missing.'),
  methodNotAllowed: (method: string) =>
    new Refusal('user', '08P01', `${method} is not allowed here: use POST`, { http_status: 405 }),
  replicationOverHttp: () => new Refusal('user', '0A000', 'Replication is not available over HTTP.'),
  physicalReplication: () =>
    new Refusal('user', '0A000', 'Physical replication is not available through the gateway', {
      hint: 'Use logical replication: `replication=database`.',
    }),
  tooManyFromAddress: () =>
    new Refusal('ratelimit', '53300', 'Too many connections from this address. Please try again later.'),
  tooManyFailedLogins: () =>
    new Refusal('ratelimit', '53400', 'Too many failed logins. Please try again later.', {
      hint: 'Clients at this address, or many elsewhere at this endpoint, keep on giving a wrong password, or tokens where none are taken.',
    }),
  endpointDisabled: (id: string) =>
    new Refusal('user', '55000', `endpoint is disabled: '${id}'`, { hint: 'Enable the endpoint and connect again.' }),
  tooManyUnauthenticated: () =>
    new Refusal('ratelimit', '53300', 'Too many connections are waiting to log in. Please try again later.'),
  tooManySessions: () =>
    new Refusal('ratelimit', '53300', 'Too many connections to this endpoint. Please try again later.'),
  /** As a server says it that has no room left. */
  tooManyClients: () => new Refusal('user', '53300', 'sorry, too many clients already'),
  poolQueueFull: () =>
    new Refusal('ratelimit', '53300', 'Too many clients wait for a connection of the pool. Please try again later.'),
  poolWaitTimeout: (timeout_ms: number) =>
    new Refusal(
      'ratelimit',
      '53300',
      `no connection of the pool became free within ${Math.round(timeout_ms / 1000)} s`,
      {
        hint: 'Keep transactions short, or give the endpoint a larger compute.',
      },
    ),
  pooledReplication: () =>
    new Refusal('user', '0A000', 'Replication is not available on pooled hosts', {
      hint: 'Connect to the direct host: the same name without `-pooler`.',
    }),
  endpointGone: () => new Refusal('user', '08004', 'the endpoint does not exist any more'),
  computeUnreachable: (cause: unknown) =>
    new Refusal('compute', '57P03', "Couldn't connect to compute node. Please try again.", { cause }),
  answerUnreadable: (cause: unknown) =>
    new Refusal('compute', '08P01', 'the compute gave an answer that cannot be read', { cause }),
  computeLost: () => new Refusal('compute', '08006', 'the connection to the compute was lost'),
  wakeTimeout: () => new Refusal('compute', '57P03', 'The compute did not start in time. Please try again.'),
  shuttingDown: () => new Refusal('shutdown', '57P01', 'terminating connection due to administrator command'),
  controlPlane: (cause: unknown) => new Refusal('controlplane', 'XX000', 'Control plane request failed', { cause }),
} as const;

/** SQLSTATEs of what a client wrote, and of bounds that its own people can move: nothing is wrong here. */
const OF_USERS = /^(22|53400$)/;

/** Whatever ended a connection before its session; what is not known becomes a refusal that says nothing of the inside. */
export function toRefusal(error: unknown): Refusal | ComputeRefusal | ClientGone {
  if (error instanceof Refusal || error instanceof ComputeRefusal || error instanceof ClientGone) return error;
  if (error instanceof ProtocolError) return new Refusal('user', error.code, error.message);
  if (error instanceof WakeError) {
    const kind = OF_USERS.test(error.code) ? 'user' : 'controlplane';
    return new Refusal(kind, error.code, error.message, { cause: error.cause });
  }
  return refusals.controlPlane(error);
}

/** The ErrorResponse for a refusal. The session's id lets a person find the line in the log. */
export function refusalResponse(refusal: Refusal | ComputeRefusal, session_id: string): Buffer {
  if (refusal instanceof ComputeRefusal) return refusal.response;
  const { code, message, hint } = refusal;
  return errorResponse({ severity: 'FATAL', code, message, detail: `session_id: ${session_id}`, hint });
}
