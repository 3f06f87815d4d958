import { randomUUID } from 'node:crypto';
import type { EndpointId } from '../domain/ids.ts';
import type { ConnectTimes } from './connect-compute.ts';
import { ClientGone, type ComputeRefusal, type ErrorKind, Refusal } from './refusal.ts';
import type { SpliceCounters } from './splice.ts';

/** What a gateway logs to; pino's loggers fit. */
export interface GatewayLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** Why a connection ended: its client left in order, or as for errors. */
export type EndReason = 'client' | ErrorKind;

/** How clients come. */
export type Protocol = 'tcp' | 'websocket' | 'http';

/** One connection in plain facts, complete when it has ended. Holds no secret. */
export interface ConnectionRecord extends ConnectTimes, SpliceCounters {
  readonly session_id: string;
  /** IP address and port, behind a balancer those that it tells; undefined when the client had gone before we looked. */
  peer: string | undefined;
  readonly protocol: Protocol;
  endpoint_id?: EndpointId;
  pooled?: boolean;
  user?: string;
  database?: string;
  application_name?: string;
  replication?: 'logical';
  tls?: string;
  error_kind?: ErrorKind;
  /** SQLSTATE of the error that the client was sent. */
  error_code?: string;
  error_message?: string;
  error_cause?: string;
  /** Why it ended; of sessions, and of what was refused. */
  reason?: EndReason;
  authentication_ms?: number;
  /** How long it waited for server connections of a pool in all, once it had logged in. */
  wait_ms: number;
  readonly connected_at: Date;
  /** Bytes were spliced between the client and a compute. */
  connected: boolean;
  total_ms: number;
}

const TEXT_CHARACTERS = 128;

export function newRecord(peer: string | undefined, protocol: Protocol): ConnectionRecord {
  return {
    session_id: randomUUID(),
    peer,
    protocol,
    wake_ms: 0,
    start_ms: 0,
    connect_ms: 0,
    wait_ms: 0,
    connected_at: new Date(),
    bytes_in: 0,
    bytes_out: 0,
    connected: false,
    total_ms: 0,
  };
}

/** A text that a client chose, short enough for a log. */
export const loggable = (text: string | undefined): string | undefined => text?.slice(0, TEXT_CHARACTERS);

/** Notes why a connection ended before its session. */
export function recordError(record: ConnectionRecord, error: Refusal | ComputeRefusal | ClientGone): void {
  if (error instanceof ClientGone) {
    record.error_kind = 'clientdisconnect';
    // A client that does not trust us says so in TLS; one that is just gone says nothing.
    if (error.cause instanceof Error && !('syscall' in error.cause)) record.error_cause = error.cause.message;
    return;
  }
  record.error_kind = error instanceof Refusal ? error.kind : 'compute';
  record.error_code = error instanceof Refusal ? error.code : error.fields.code;
  record.error_message = loggable(error.message);
  if (error.cause !== undefined) record.error_cause = String(error.cause);
}

const WARNED: ReadonlySet<ErrorKind> = new Set(['compute', 'controlplane', 'ratelimit']);

export function logRecord(logger: GatewayLogger, record: ConnectionRecord): void {
  const level = record.error_kind && WARNED.has(record.error_kind) ? 'warn' : 'info';
  const rounded = {
    wake_ms: round(record.wake_ms),
    start_ms: round(record.start_ms),
    connect_ms: round(record.connect_ms),
    wait_ms: round(record.wait_ms),
    total_ms: round(record.total_ms),
  };
  const authentication_ms = record.authentication_ms === undefined ? undefined : round(record.authentication_ms);
  logger[level]({ ...record, ...rounded, authentication_ms }, 'connection ended');
}

const round = (duration_ms: number): number => Math.round(duration_ms * 10) / 10;
