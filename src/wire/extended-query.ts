import { ProtocolError, takeCstring } from './message.ts';

/** Messages around one statement with parameters. Source: PostgreSQL documentation, "Message Formats". */

/** A statement and its parameters as text; null is NULL. Neither may hold a zero. */
export interface TextStatement {
  readonly sql: string;
  readonly parameters: readonly (string | null)[];
}

const code = (letter: string): number => letter.charCodeAt(0);

/** The bound of the protocol on parameters: their number is an unsigned word. */
export const PARAMETERS_MAX = 65_535;

const HEADER_BYTES = 5;

/** Of Parse, Bind, Describe and Execute beside the statement and its parameters. */
const FIXED_BYTES = 9 + 13 + 7 + 10;

/**
 * Parse, Bind, Describe and Execute for each statement, unnamed and with everything as text, and one Sync. Behind a failure
 * the server skips the rest.
 */
export function statementMessages(statements: readonly TextStatement[]): Buffer {
  let total = HEADER_BYTES;
  for (const { sql, parameters } of statements) {
    total += FIXED_BYTES + Buffer.byteLength(sql);
    for (const parameter of parameters) total += 4 + (parameter === null ? 0 : Buffer.byteLength(parameter));
  }
  const bytes = Buffer.allocUnsafe(total);
  let at = 0;
  for (const statement of statements) {
    at = writeParse(bytes, at, statement.sql);
    at = writeBind(bytes, at, statement.parameters);
    at = writeDescribePortal(bytes, at);
    at = writeExecute(bytes, at);
  }
  bytes[at] = code('S');
  bytes.writeInt32BE(4, at + 1);
  return bytes;
}

function writeParse(bytes: Buffer, start: number, sql: string): number {
  bytes[start] = code('P');
  let at = start + HEADER_BYTES;
  bytes[at++] = 0;
  at += bytes.write(sql, at);
  bytes[at++] = 0;
  at = bytes.writeInt16BE(0, at);
  bytes.writeInt32BE(at - start - 1, start + 1);
  return at;
}

function writeBind(bytes: Buffer, start: number, parameters: TextStatement['parameters']): number {
  bytes[start] = code('B');
  let at = start + HEADER_BYTES;
  bytes[at++] = 0;
  bytes[at++] = 0;
  at = bytes.writeInt16BE(0, at);
  at = bytes.writeUInt16BE(parameters.length, at);
  for (const parameter of parameters) {
    if (parameter === null) at = bytes.writeInt32BE(-1, at);
    else {
      const length = bytes.write(parameter, at + 4);
      at = bytes.writeInt32BE(length, at) + length;
    }
  }
  at = bytes.writeInt16BE(0, at);
  bytes.writeInt32BE(at - start - 1, start + 1);
  return at;
}

function writeDescribePortal(bytes: Buffer, start: number): number {
  bytes[start] = code('D');
  bytes.writeInt32BE(6, start + 1);
  bytes[start + 5] = code('P');
  bytes[start + 6] = 0;
  return start + 7;
}

function writeExecute(bytes: Buffer, start: number): number {
  bytes[start] = code('E');
  bytes.writeInt32BE(9, start + 1);
  bytes[start + 5] = 0;
  return bytes.writeInt32BE(0, start + 6);
}

/** A column of a result. */
export interface Field {
  readonly name: string;
  readonly table_id: number;
  readonly column_id: number;
  readonly type_id: number;
  readonly type_size: number;
  readonly type_modifier: number;
}

/** Of a field beside its name. */
const FIELD_BYTES = 18;

/** The columns in the body of a RowDescription. Throws for one that ends before they do. */
export function parseRowDescription(body: Buffer): Field[] {
  const fields: Field[] = [];
  if (body.length < 2) throw new ProtocolError('Malformed row description: missing number of columns');
  let at = 2;
  for (let left = body.readUInt16BE(0); left > 0; left--) {
    const { value: name, bytes } = takeCstring(body, at, 'row description');
    at += bytes;
    if (body.length < at + FIELD_BYTES) throw new ProtocolError('Malformed row description: missing column');
    fields.push({
      name,
      table_id: body.readUInt32BE(at),
      column_id: body.readInt16BE(at + 4),
      type_id: body.readUInt32BE(at + 6),
      type_size: body.readInt16BE(at + 10),
      type_modifier: body.readInt32BE(at + 12),
    });
    at += FIELD_BYTES;
  }
  return fields;
}

/** What a command did: `SELECT` and 2 of `SELECT 2`; `INSERT` and 1 of `INSERT 0 1`; null where there is no number. */
export function parseCommandTag(body: Buffer): { readonly command: string; readonly rows: number | null } {
  const words = body.toString('latin1', 0, body.length - 1).split(' ');
  const command = words[0]!;
  const count = words[command === 'INSERT' ? 2 : 1];
  return { command, rows: count !== undefined && /^\d+$/.test(count) ? Number(count) : null };
}
