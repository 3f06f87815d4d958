/** As much of the protocol as is needed to answer a client that reads only when it expects something. */

const PROTOCOL_3 = 0x30000;
const QUERY = 0x51;
const SYNC = 0x53;
const READY = 0x5a;
const ERROR = 0x45;
const AUTHENTICATION = 0x52;
const MESSAGE_FIELD = 0x4d;

/** The start-up message: who wants into which database, with which options. */
export function startupMessage(parameters: Readonly<Record<string, string>>): Uint8Array {
  const pairs = Object.entries(parameters).flat();
  const body = Buffer.from(`${pairs.join('\0')}\0\0`, 'utf8');
  const head = Buffer.alloc(8);
  head.writeInt32BE(body.length + 8, 0);
  head.writeInt32BE(PROTOCOL_3, 4);
  return Uint8Array.from(Buffer.concat([head, body]));
}

/** Reads what a client writes, in pieces of any size. */
export class FrontendReader {
  #pending: Buffer = Buffer.alloc(0);
  #started = false;

  /** How many times the server will say that it is ready for more, once it has this. */
  take(bytes: Uint8Array): { replies: number; startup: boolean } {
    this.#pending = Buffer.concat([this.#pending, bytes]);
    const startup = !this.#started;
    let replies = 0;
    if (startup) {
      if (this.#pending.length < 8 || this.#pending.length < this.#pending.readInt32BE(0)) return { replies, startup };
      if (this.#pending.readInt32BE(4) >> 16 !== 3) throw new Error('pg_dump asked for an encrypted connection');
      this.#pending = this.#pending.subarray(this.#pending.readInt32BE(0));
      this.#started = true;
      replies = 1;
    }
    while (this.#pending.length >= 5 && this.#pending.length > this.#pending.readInt32BE(1)) {
      const type = this.#pending[0];
      if (type === QUERY || type === SYNC) replies += 1;
      this.#pending = this.#pending.subarray(this.#pending.readInt32BE(1) + 1);
    }
    return { replies, startup };
  }
}

/**
 * Everything up to the last of so many times that the server is ready for more.
 *
 * @param receive waits for more of it; undefined when the server has closed the connection
 * @throws what the server said last, or that it closed the connection
 */
export function untilReady(replies: number, receive: () => Uint8Array | undefined): Uint8Array {
  const chunks: Uint8Array[] = [];
  let rest: Buffer = Buffer.alloc(0);
  let error: string | undefined;
  let left = replies;
  while (left > 0) {
    const chunk = receive();
    if (!chunk) throw new Error(error ?? 'the server closed the connection');
    chunks.push(chunk);
    // Only the head of a message that is not complete is looked at again and again, however long it is.
    rest = rest.length === 0 ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length) : Buffer.concat([rest, chunk]);
    while (rest.length >= 5 && rest.length > rest.readInt32BE(1)) {
      const end = rest.readInt32BE(1) + 1;
      if (rest[0] === READY) left -= 1;
      if (rest[0] === ERROR) error = errorMessage(rest.subarray(5, end));
      if (rest[0] === AUTHENTICATION && rest.readInt32BE(5) !== 0) throw new Error('the server asks for a password');
      rest = rest.subarray(end);
    }
  }
  return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
}

function errorMessage(fields: Buffer): string | undefined {
  for (const field of fields.toString('utf8').split('\0')) {
    if (field.charCodeAt(0) === MESSAGE_FIELD) return field.slice(1);
  }
  return undefined;
}
