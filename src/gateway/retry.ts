import { ComputeRefusal } from './refusal.ts';

/**
 * What to do after an attempt to reach a compute failed: `fail` and tell the client, `wake` it (again), or `retry`
 * after a pause without a wake.
 */
export type NextMove = 'fail' | 'wake' | 'retry';

/** A stream to a compute ended or broke before the login was done. */
export class ComputeGone extends Error {
  constructor(options?: ErrorOptions) {
    super('the compute closed the connection during the login', options);
    this.name = 'ComputeGone';
  }
}

/** Nothing listens there, or what listened is going away. */
const WAKE_IO = new Set(['ECONNREFUSED', 'ENOENT', 'ECONNRESET', 'EPIPE', 'ENOTCONN', 'EHOSTUNREACH', 'EADDRNOTAVAIL']);
/** The server's queue of new connections is full, or it is slow. */
const RETRY_IO = new Set(['EAGAIN', 'ETIMEDOUT']);
/** cannot_connect_now (starting up, shutting down, in recovery), and shutdowns that meet a login half way. */
const WAKE_SQLSTATES = new Set(['57P03', '57P01', '57P02']);

/** Decides from the error of one attempt. Nothing has been done in the client's name before a login is complete. */
export function nextMove(error: unknown): NextMove {
  if (error instanceof ComputeRefusal) return WAKE_SQLSTATES.has(error.fields.code) ? 'wake' : 'fail';
  if (error instanceof ComputeGone) return 'wake';
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  if (typeof code !== 'string') return 'fail';
  return WAKE_IO.has(code) ? 'wake' : RETRY_IO.has(code) ? 'retry' : 'fail';
}

const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 1000;

/** The pause before attempt `attempt` (0 is the first). A wake has waited already, so the attempt after it comes at once. */
export function pauseMs(attempt: number): number {
  return attempt < 2 ? 0 : Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempt - 2));
}
