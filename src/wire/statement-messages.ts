import { cstring, message } from './message.ts';

/** Messages about prepared statements, and other names for what they name. Source: PostgreSQL documentation, "Message Formats". */

const HEADER_BYTES = 5;
const STATEMENT = Buffer.from('S');

/** @param rest the text, and the types of its parameters, as in the message that it came in */
export const parseStatement = (name: string, rest: Buffer): Buffer =>
  message('P', Buffer.concat([cstring(name), rest]));

export const closeStatement = (name: string): Buffer => message('C', Buffer.concat([STATEMENT, cstring(name)]));

/**
 * The start of a message up to a name in it, with another name. What follows the old name's terminator goes on as it is.
 * @param offset where the message starts in `bytes`
 * @param end where it ends, perhaps behind them
 * @param name_start where the old name starts
 * @param name_end where its terminator is
 */
export function renamedStart(
  bytes: Buffer,
  { offset, end, name_start, name_end }: { offset: number; end: number; name_start: number; name_end: number },
  name: string,
): Buffer {
  const kept_bytes = name_start - offset;
  const start = Buffer.allocUnsafe(kept_bytes + name.length + 1);
  bytes.copy(start, 0, offset, name_start);
  start.write(name, kept_bytes, 'latin1');
  start[kept_bytes + name.length] = 0;
  start.writeInt32BE(end - offset - 1 - (name_end - name_start) + name.length, 1);
  return start;
}

/** Where a zero-terminated string ends that starts at `from`; -1 when it does not end in what has arrived of the message. */
export function stringEnd(bytes: Buffer, from: number, end: number): number {
  const found = bytes.indexOf(0, from);
  return found < end ? found : -1;
}

export const bodyStart = (offset: number): number => offset + HEADER_BYTES;
