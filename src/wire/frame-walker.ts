import { ProtocolError } from './message.ts';

const HEADER_BYTES = 5;
const EMPTY = Buffer.alloc(0);

/**
 * Walks the messages of one direction of a conversation, chunk by chunk, without making an object for each. Between two
 * chunks it keeps how much of the current message is still to come, and the start of a message where less than its
 * header has arrived, or where somebody asked to see more of it. The chunk's memory is the caller's again afterwards.
 */
export class FrameWalker {
  /** What is walked: the chunk, with what was held back in front of it. */
  bytes: Buffer = EMPTY;
  /** Everything in `bytes` before this may be passed on; what lies behind is held back. */
  limit = 0;
  /** So many bytes at the start of `bytes` end a message that began in an earlier chunk. */
  carried_bytes = 0;
  /** Of the current message: its type, where it starts in `bytes`, and where it ends, perhaps behind them. */
  type = 0;
  offset = 0;
  end = 0;
  #cursor = 0;
  #skip_bytes = 0;
  #held: Buffer[] = [];
  #held_bytes = 0;
  #wanted_bytes = 0;

  /** True between two messages, as far as they were passed on. */
  get between(): boolean {
    return this.#skip_bytes === 0;
  }

  get current_bytes(): number {
    return this.end - this.offset;
  }

  /** True when the current message has arrived to its end. */
  get complete(): boolean {
    return this.end <= this.bytes.length;
  }

  /** Begins with a chunk. False when nothing can be done yet: all of it is held back. */
  feed(chunk: Buffer): boolean {
    if (this.#held_bytes > 0) {
      this.#held_bytes += chunk.length;
      if (this.#held_bytes < this.#wanted_bytes) {
        this.#held.push(Buffer.from(chunk));
        this.bytes = EMPTY;
        this.limit = 0;
        return false;
      }
      this.bytes = Buffer.concat([...this.#held, chunk]);
      this.#held = [];
      this.#held_bytes = 0;
    } else {
      this.bytes = chunk;
    }
    this.limit = this.bytes.length;
    this.carried_bytes = Math.min(this.#skip_bytes, this.bytes.length);
    this.#cursor = this.carried_bytes;
    this.#skip_bytes -= this.carried_bytes;
    return true;
  }

  /** Goes to the next message that starts in `bytes`; false when there is none. Throws for an impossible length. */
  next(): boolean {
    const { bytes } = this;
    const start = this.#cursor;
    const left_bytes = bytes.length - start;
    if (left_bytes <= 0) return false;
    this.offset = start;
    if (left_bytes < HEADER_BYTES) {
      this.hold(HEADER_BYTES);
      return false;
    }
    const length = bytes.readInt32BE(start + 1);
    if (length < 4) throw new ProtocolError(`invalid message length ${length}`);
    this.type = bytes[start]!;
    this.end = start + 1 + length;
    this.#cursor = Math.min(this.end, bytes.length);
    this.#skip_bytes = this.end - this.#cursor;
    return true;
  }

  /** Holds the current message back until so many bytes of it have arrived; it is then come to again. Ends the walk. */
  hold(wanted_bytes: number): void {
    const rest = this.bytes.subarray(this.offset);
    this.#held = [Buffer.from(rest)];
    this.#held_bytes = rest.length;
    this.#wanted_bytes = wanted_bytes;
    this.#stopAtOffset();
  }

  /** Ends the walk before the current message, which is to be fed again with what follows it. The memory is the chunk's. */
  giveBack(): Buffer {
    const rest = this.bytes.subarray(this.offset);
    this.#stopAtOffset();
    return rest;
  }

  #stopAtOffset(): void {
    this.limit = this.offset;
    this.#cursor = this.bytes.length;
    this.#skip_bytes = 0;
  }
}
