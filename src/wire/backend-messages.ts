import { cstring, int32, type Message, message } from './message.ts';

/** Messages that a server sends. Source: PostgreSQL documentation, "Message Formats" and "Error and Notice Message Fields". */

export interface ErrorFields {
  readonly severity: string;
  /** SQLSTATE */
  readonly code: string;
  readonly message: string;
  readonly detail?: string;
  readonly hint?: string;
}

export const errorResponse = (fields: ErrorFields): Buffer => message('E', fieldsBody(fields));

/** May be sent at any time, before a session is ready, too. */
export const noticeResponse = (fields: ErrorFields): Buffer => message('N', fieldsBody(fields));

function fieldsBody({ severity, code, message: text, detail, hint }: ErrorFields): Buffer {
  const parts = [`S${severity}`, `V${severity}`, `C${code}`, `M${text}`];
  if (detail !== undefined) parts.push(`D${detail}`);
  if (hint !== undefined) parts.push(`H${hint}`);
  // A zero inside a text would end its field early.
  const body = parts.map((part) => `${part.replaceAll('\0', '')}\0`).join('');
  return Buffer.from(`${body}\0`, 'utf8');
}

/** All fields of an ErrorResponse or NoticeResponse, by their letters. */
export function parseFieldLetters(body: Buffer): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const part of body.toString('utf8').split('\0')) {
    if (part.length > 0) found.set(part[0]!, part.slice(1));
  }
  return found;
}

/** The fields of an ErrorResponse or NoticeResponse; tolerant, since it may come from any server version. */
export function parseErrorFields(body: Buffer): ErrorFields {
  const found = parseFieldLetters(body);
  return {
    severity: found.get('V') ?? found.get('S') ?? 'ERROR',
    code: found.get('C') ?? 'XX000',
    message: found.get('M') ?? '',
    detail: found.get('D'),
    hint: found.get('H'),
  };
}

export const AUTHENTICATION = {
  ok: 0,
  cleartext_password: 3,
  sasl: 10,
  sasl_continue: 11,
  sasl_final: 12,
} as const;

export const authenticationOk = (): Buffer => message('R', int32(AUTHENTICATION.ok));
export const authenticationCleartextPassword = (): Buffer => message('R', int32(AUTHENTICATION.cleartext_password));

export function authenticationSasl(mechanisms: readonly string[]): Buffer {
  return message('R', Buffer.concat([int32(AUTHENTICATION.sasl), ...mechanisms.map(cstring), Buffer.from([0])]));
}

export function authenticationSaslContinue(data: string): Buffer {
  return message('R', Buffer.concat([int32(AUTHENTICATION.sasl_continue), Buffer.from(data)]));
}

export function authenticationSaslFinal(data: string): Buffer {
  return message('R', Buffer.concat([int32(AUTHENTICATION.sasl_final), Buffer.from(data)]));
}

/** What names a session to a CancelRequest. The secret has 4 bytes up to protocol 3.0, up to 256 from 3.2 on. */
export interface BackendKey {
  readonly process_id: number;
  readonly secret: Buffer;
}

export function backendKeyData({ process_id, secret }: BackendKey): Buffer {
  return message('K', Buffer.concat([int32(process_id), secret]));
}

export function parseBackendKeyData({ body }: Message): BackendKey | undefined {
  if (body.length < 8) return undefined;
  return { process_id: body.readInt32BE(0), secret: Buffer.from(body.subarray(4)) };
}

/** Says which version the server will speak and which protocol options it does not know. */
export function negotiateProtocolVersion(version: number, unknownOptions: readonly string[]): Buffer {
  return message('v', Buffer.concat([int32(version), int32(unknownOptions.length), ...unknownOptions.map(cstring)]));
}
