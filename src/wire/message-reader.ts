import { ProtocolError } from './message.ts';

const HEADER_BYTES = 5;

/**
 * Cuts a stream into messages as it comes. What is incomplete is held as it came, and joined once it is whole, so that a
 * large message costs one copy.
 */
export class MessageReader {
  readonly #limit_bytes: number;
  readonly #onMessage: (type: number, body: Buffer) => void;
  #held: Buffer[] = [];
  #held_bytes = 0;
  #needed_bytes = HEADER_BYTES;

  /**
   * @param limit_bytes of one message; `push` throws a ProtocolError for the header of a longer one
   * @param onMessage hears of each message: its type byte and its body, which lies in the memory of what was pushed
   */
  constructor(limit_bytes: number, onMessage: (type: number, body: Buffer) => void) {
    this.#limit_bytes = limit_bytes;
    this.#onMessage = onMessage;
  }

  push(chunk: Buffer): void {
    this.#held.push(chunk);
    this.#held_bytes += chunk.length;
    if (this.#held_bytes < this.#needed_bytes) return;
    const bytes = this.#held.length === 1 ? chunk : Buffer.concat(this.#held);
    let at = 0;
    this.#needed_bytes = HEADER_BYTES;
    while (bytes.length - at >= HEADER_BYTES) {
      const length = bytes.readInt32BE(at + 1);
      if (length < 4 || length > this.#limit_bytes) throw new ProtocolError(`invalid message length ${length}`);
      if (bytes.length - at <= length) {
        this.#needed_bytes = length + 1;
        break;
      }
      const end = at + 1 + length;
      this.#onMessage(bytes[at]!, bytes.subarray(at + HEADER_BYTES, end));
      at = end;
    }
    this.#held = at < bytes.length ? [bytes.subarray(at)] : [];
    this.#held_bytes = bytes.length - at;
  }
}
