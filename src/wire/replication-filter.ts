import { query } from './frontend-messages.ts';
import { ProtocolError } from './message.ts';
import { judgeReplicationQuery } from './replication.ts';

const QUERY_TYPE = 'Q'.charCodeAt(0);
const HEADER_BYTES = 5;
/** A replication command must be complete, and the first word of a statement seen, within so many bytes. */
const JUDGED_BYTES = 16 * 1024;

/**
 * Reads the client's side of a logical replication connection and lets through what may pass. A refused query is
 * replaced by a statement that fails with our message, so that the server answers in order and in its own transaction
 * state; nothing has to be put between its bytes. Holds back at most the start of one query.
 */
export class ReplicationFilter {
  /** Bytes not yet forwarded: the header of a message, or the start of a query. */
  #held: Buffer = Buffer.alloc(0);
  /** Bytes of the current message that are still to come, and where they go. */
  #rest_bytes = 0;
  #dropping = false;

  /** What to forward for these bytes. Throws a ProtocolError where the server could not go on either. */
  push(chunk: Buffer): Buffer {
    const forwarded: Buffer[] = [];
    let input = this.#held.length > 0 ? Buffer.concat([this.#held, chunk]) : chunk;
    this.#held = Buffer.alloc(0);
    while (input.length > 0) {
      if (this.#rest_bytes > 0) {
        const part = input.subarray(0, this.#rest_bytes);
        if (!this.#dropping) forwarded.push(part);
        this.#rest_bytes -= part.length;
        input = input.subarray(part.length);
        continue;
      }
      const start = this.#startMessage(input);
      if (start === undefined) {
        // A copy, since the chunk's memory is the reader's.
        this.#held = Buffer.from(input);
        break;
      }
      if (start) forwarded.push(start);
    }
    return forwarded.length === 1 ? forwarded[0]! : Buffer.concat(forwarded);
  }

  /** Sets up the next message; returns what to send instead of it, if anything, or undefined while undecided. */
  #startMessage(input: Buffer): Buffer | false | undefined {
    if (input.length < HEADER_BYTES) return undefined;
    const length = input.readInt32BE(1);
    if (length < 4) throw new ProtocolError(`invalid message length ${length}`);
    const total_bytes = length + 1;
    let replacement: Buffer | false = false;
    if (input[0] === QUERY_TYPE) {
      const verdict = judge(input, total_bytes);
      if (verdict === 'undecided') return undefined;
      if (verdict !== 'pass') replacement = query(refusal(verdict.refused));
    }
    this.#dropping = replacement !== false;
    this.#rest_bytes = total_bytes;
    return replacement;
  }
}

function judge(input: Buffer, total_bytes: number) {
  const seen = input.subarray(HEADER_BYTES, Math.min(total_bytes, HEADER_BYTES + JUDGED_BYTES));
  const zero = seen.indexOf(0);
  const complete = zero >= 0 || (input.length >= total_bytes && seen.length < JUDGED_BYTES);
  const judged = judgeReplicationQuery(seen.toString('latin1', 0, zero >= 0 ? zero : seen.length), complete);
  if (judged === 'undecided' && seen.length >= JUDGED_BYTES) return { refused: 'a replication command of this length' };
  return judged;
}

/** SQL that raises our error. */
function refusal(what: string): string {
  const text = `${what.replaceAll('$', '').slice(0, 63)} is not allowed through the gateway`;
  const hint =
    'Only logical replication is served: SQL, slots and streams with LOGICAL, IDENTIFY_SYSTEM, SHOW, TIMELINE_HISTORY.';
  return `DO LANGUAGE plpgsql $refusal$ BEGIN RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = '${text}', HINT = '${hint}'; END $refusal$`;
}
