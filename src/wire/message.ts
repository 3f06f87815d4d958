/**
 * Framing of the PostgreSQL protocol, version 3: a type byte, a length word that counts itself, a body.
 * Source: PostgreSQL documentation, "Message Formats".
 */

/** The peer broke the protocol. Its message is for the peer and holds nothing secret. */
export class ProtocolError extends Error {
  /** SQLSTATE */
  readonly code: string;
  constructor(message: string, code = '08P01') {
    super(message);
    this.name = 'ProtocolError';
    this.code = code;
  }
}

export interface Message {
  /** ASCII code of the type byte. */
  readonly type: number;
  readonly body: Buffer;
  /** Type byte, length word and body, as received. */
  readonly raw: Buffer;
}

/** A value read from the start of a buffer, and how many bytes it took. */
export interface Taken<T> {
  readonly value: T;
  readonly bytes: number;
}

const HEADER_BYTES = 5;

/**
 * The first message of `buffer`; undefined while it is incomplete. Throws before anything is collected when the length
 * word is impossible or above `limit_bytes`.
 */
export function takeMessage(buffer: Buffer, limit_bytes: number): Taken<Message> | undefined {
  if (buffer.length < HEADER_BYTES) return undefined;
  const length = buffer.readInt32BE(1);
  if (length < 4 || length > limit_bytes) throw new ProtocolError(`invalid message length ${length}`);
  const bytes = length + 1;
  if (buffer.length < bytes) return undefined;
  const raw = buffer.subarray(0, bytes);
  return { value: { type: raw[0]!, body: raw.subarray(HEADER_BYTES), raw }, bytes };
}

/** A whole message of the given type (one ASCII character). */
export function message(type: string, body: Buffer): Buffer {
  const raw = Buffer.allocUnsafe(HEADER_BYTES + body.length);
  raw[0] = type.charCodeAt(0);
  raw.writeInt32BE(4 + body.length, 1);
  body.copy(raw, HEADER_BYTES);
  return raw;
}

/** A string as the protocol carries it: UTF-8 and a terminating zero. */
export function cstring(text: string): Buffer {
  return Buffer.from(`${text}\0`, 'utf8');
}

export function int32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeInt32BE(value | 0);
  return bytes;
}

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The zero-terminated string that starts at `offset`. Throws when the zero is missing or the text is not UTF-8. */
export function takeCstring(body: Buffer, offset: number, what: string): Taken<string> {
  const end = body.indexOf(0, offset);
  if (end < 0) throw new ProtocolError(`Malformed ${what}: missing terminator`);
  try {
    return { value: strictUtf8.decode(body.subarray(offset, end)), bytes: end + 1 - offset };
  } catch {
    throw new ProtocolError(`Malformed ${what}: not valid UTF-8`, '22021');
  }
}
