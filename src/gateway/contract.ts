import type { Duplex } from 'node:stream';
import type { BranchId, EndpointId } from '../domain/ids.ts';
import type { BackendKey } from '../wire/backend-messages.ts';
import type { ScramKeys } from '../wire/scram.ts';

/**
 * What the gateway needs from the rest, handed in by `main`. The gateway never sees the store or a driver.
 */

/** A role as the gateway must know it to let somebody in. */
export interface RoleSecret {
  /** Postgres's text form of the SCRAM verifier; null when the role has no password. */
  readonly verifier: string | null;
  readonly can_login: boolean;
  readonly valid_until: Date | null;
}

/** From where clients may come. */
export interface AccessRules {
  /** Addresses, ranges and networks; nobody else is let in. Undefined: everybody is. */
  readonly allowed_ips?: readonly string[];
  /** Only from this machine and private networks. */
  readonly private_only: boolean;
}

/** Where an endpoint is, and who may enter. */
export interface EndpointEntry {
  readonly endpoint_id: EndpointId;
  readonly disabled: boolean;
  /** Undefined: from everywhere. */
  readonly access?: AccessRules;
  /** `stopping`: hold the connection and ask for a wake, which is served by the next start. */
  readonly state: 'running' | 'stopping' | 'stopped';
  /** More sessions are refused; undefined: the server knows its own bound. */
  readonly sessions_max?: number;
  /** It serves the past of a branch, and the directory knows nothing of it. */
  readonly past?: true;
  /** Server connections that the pools of the endpoint may have together. */
  readonly pool_size?: number;
}

/** Whose tokens are taken for a role of an endpoint. */
export interface TokenIssuer {
  /** Where its public keys are (JWKS). Whether they may be there is looked at again when they are fetched. */
  readonly jwks_url: string;
  /** A token must be meant for it, where one is given. */
  readonly audience?: string;
}

/** Who gets in by a token instead of a password. */
export interface TokenDirectory {
  /** Empty for a role that takes none, for unknown roles and endpoints. */
  issuers(id: EndpointId, role: string): Promise<readonly TokenIssuer[]>;
  /** What logs in to the compute as a role that takes tokens; undefined when nothing of the kind is known. */
  keys(id: EndpointId, role: string): Promise<ScramKeys | undefined>;
}

/** A point of a branch's past as a client wrote it, not yet read. */
export interface PointText {
  readonly kind: 'lsn' | 'timestamp';
  readonly text: string;
}

/** A branch that clients may come to at a point of its past. */
export interface BranchEntry {
  readonly access?: AccessRules;
}

export interface Directory {
  /** The endpoint, or undefined when there is none. Answers from what this process last heard; cheap. */
  endpoint(id: EndpointId): Promise<EndpointEntry | undefined>;
  /** The role's secret, or undefined. `refresh` asks the running server once more (a password changed in SQL). */
  role(id: EndpointId, name: string, options?: { refresh?: boolean }): Promise<RoleSecret | undefined>;
  /** The branch, or undefined when there is none. */
  branch(id: BranchId): Promise<BranchEntry | undefined>;
  /** The secret of the branch's role as it is now, or undefined; as for an endpoint. */
  branchRole(id: BranchId, name: string, options?: { refresh?: boolean }): Promise<RoleSecret | undefined>;
}

/** Other processes that serve the same port. */
export interface GatewayPeers {
  /** Which of them this one is, below `CANCEL_SLOTS`. */
  readonly slot: number;
  /** Passes a cancel request on to the one that issued its key; resolves when that has dealt with it. Never throws. */
  cancel(request: CancelRequest): Promise<void>;
}

export interface CancelRequest {
  readonly key: BackendKey;
  /** Address and port that it comes from. */
  readonly peer: string | undefined;
}

/** A user-facing reason why an endpoint could not be woken. Its message is shown to the client. */
export class WakeError extends Error {
  /** SQLSTATE */
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.name = 'WakeError';
    this.code = code;
  }
}

export interface Waker {
  /** A stream to the endpoint's server if one listens right now; undefined when it sleeps or stops. */
  dial(id: EndpointId): Promise<Duplex | undefined>;
  /** Resolves once the endpoint's compute accepts connections. Wakes of one endpoint are one start. Throws WakeError. */
  wake(id: EndpointId, signal: AbortSignal): Promise<void>;
  /** Whether a branch, or that of an endpoint, is being brought back from the archive, which may take long. */
  comesFromArchive(id: EndpointId | BranchId): Promise<boolean>;
  /**
   * Has the endpoint's server end those of its sessions that are in no transaction and have nothing to do. The client of
   * one hears it from the server.
   *
   * @param process_ids the server's own names of sessions
   */
  endIdle(id: EndpointId, process_ids: readonly number[]): Promise<void>;
  /**
   * The endpoint of a read-only copy of a branch as it was at a point. It is made now, or shared with others who are
   * there; its compute may still have to be woken. A branch in the archive is brought back first, until `signal` aborts.
   * Throws WakeError, with the bounds of the history for a point outside.
   *
   * @param role who wants to go, and has proved to be that role
   */
  travel(id: BranchId, point: PointText, role: string, signal: AbortSignal): Promise<EndpointId>;
}
