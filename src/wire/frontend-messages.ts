import type { BackendKey } from './backend-messages.ts';
import { cstring, int32, type Message, message, ProtocolError, takeCstring } from './message.ts';
import { CANCEL_REQUEST_CODE, protocolVersion } from './startup.ts';

/** Messages that a client sends. Source: PostgreSQL documentation, "Message Formats". */

function untyped(code: number, rest: readonly Buffer[]): Buffer {
  const body = Buffer.concat([int32(code), ...rest]);
  return Buffer.concat([int32(4 + body.length), body]);
}

/** A startup packet for protocol 3.0. */
export function startupMessage(parameters: Iterable<readonly [string, string]>): Buffer {
  const pairs = [...parameters].flatMap(([name, value]) => [cstring(name), cstring(value)]);
  return untyped(protocolVersion(3, 0), [...pairs, Buffer.from([0])]);
}

export function cancelRequest({ process_id, secret }: BackendKey): Buffer {
  return untyped(CANCEL_REQUEST_CODE, [int32(process_id), secret]);
}

export function saslInitialResponse(mechanism: string, data: string): Buffer {
  const bytes = Buffer.from(data);
  return message('p', Buffer.concat([cstring(mechanism), int32(bytes.length), bytes]));
}

export const saslResponse = (data: string): Buffer => message('p', Buffer.from(data));

export const query = (sql: string): Buffer => message('Q', cstring(sql));

const PASSWORD_TYPE = 'p'.charCodeAt(0);

/** The body of a password or SASL message; throws for any other type. */
export function passwordBody({ type, body }: Message): Buffer {
  if (type !== PASSWORD_TYPE) {
    throw new ProtocolError(`expected a password or SASL response, got message type ${type}`);
  }
  return body;
}

/** The text of a PasswordMessage. */
export function parsePassword(received: Message): string {
  const body = passwordBody(received);
  const { value, bytes } = takeCstring(body, 0, 'password message');
  if (bytes !== body.length) throw new ProtocolError('Malformed password message: data after the terminator');
  return value;
}

/** The mechanism a client chose, and its first message; undefined when it waits for an empty challenge first. */
export function parseSaslInitialResponse(received: Message): { mechanism: string; data: string | undefined } {
  const body = passwordBody(received);
  const { value: mechanism, bytes } = takeCstring(body, 0, 'SASL message');
  if (body.length < bytes + 4) throw new ProtocolError('Malformed SASL message: missing length');
  const length = body.readInt32BE(bytes);
  const data = body.subarray(bytes + 4);
  if (length === -1 && data.length === 0) return { mechanism, data: undefined };
  if (length !== data.length) throw new ProtocolError('Malformed SASL message: wrong length');
  return { mechanism, data: data.toString('utf8') };
}
