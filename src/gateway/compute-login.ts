import type { Duplex } from 'node:stream';
import { LIMITS } from '../domain/limits.ts';
import { AUTHENTICATION, type BackendKey, parseBackendKeyData, parseErrorFields } from '../wire/backend-messages.ts';
import { saslInitialResponse, saslResponse, startupMessage } from '../wire/frontend-messages.ts';
import { type Message, ProtocolError, takeMessage } from '../wire/message.ts';
import { SCRAM_SHA_256, type ScramKeys } from '../wire/scram.ts';
import { scramClient } from '../wire/scram-client.ts';
import { ByteChannel } from './byte-channel.ts';
import { ComputeRefusal } from './refusal.ts';
import { ComputeGone } from './retry.ts';

/** A server connection that is ready for the client's first message. */
export interface ComputeSession {
  readonly stream: Duplex;
  /** The server's own key; undefined when it sent none. */
  readonly key: BackendKey | undefined;
  /** ParameterStatus and notices from the login, as they came. */
  readonly greeting: readonly Buffer[];
  /** Bytes that came after ReadyForQuery, and that message before them. */
  readonly rest: Buffer;
}

const CHANNEL_BYTES = 64 * 1024;
const type = (character: string) => character.charCodeAt(0);
const TYPES = {
  authentication: type('R'),
  parameterStatus: type('S'),
  notice: type('N'),
  backendKey: type('K'),
  readyForQuery: type('Z'),
  error: type('E'),
};

/**
 * Logs in over a fresh stream in the client's name, by SCRAM with the keys won from the client. The stream is destroyed
 * when this throws: a ComputeRefusal with the server's error, ComputeGone, or a ProtocolError.
 */
export async function logInToCompute(
  stream: Duplex,
  parameters: ReadonlyMap<string, string>,
  keys: ScramKeys,
  signal: AbortSignal,
): Promise<ComputeSession> {
  // The stream lives on after the channel; without a listener a late error would end the process.
  stream.on('error', () => undefined);
  const channel = new ByteChannel(stream, CHANNEL_BYTES, (cause) => new ComputeGone({ cause }));
  const abort = () => channel.fail(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  const deadline = setTimeout(
    () => channel.fail(Object.assign(new Error('the compute did not answer the login in time'), { code: 'ETIMEDOUT' })),
    LIMITS.compute_login_timeout_ms,
  );
  try {
    if (signal.aborted) abort();
    channel.write(startupMessage(parameters));
    await proveIdentity(channel, keys);
    return await receiveGreeting(channel);
  } catch (error) {
    stream.destroy();
    throw error;
  } finally {
    clearTimeout(deadline);
    signal.removeEventListener('abort', abort);
  }
}

async function next(channel: ByteChannel): Promise<Message> {
  const received = await channel.take((bytes) => takeMessage(bytes, LIMITS.compute_login_bytes));
  if (received.type !== TYPES.error) return received;
  throw new ComputeRefusal(parseErrorFields(received.body), Buffer.from(received.raw));
}

async function proveIdentity(channel: ByteChannel, keys: ScramKeys): Promise<void> {
  const offer = await expectAuthentication(channel, AUTHENTICATION.sasl);
  if (!offer.toString('utf8').split('\0').includes(SCRAM_SHA_256)) {
    throw new ProtocolError('the compute does not offer SCRAM-SHA-256');
  }
  const client = scramClient(keys);
  channel.write(saslInitialResponse(SCRAM_SHA_256, client.clientFirst));
  const serverFirst = await expectAuthentication(channel, AUTHENTICATION.sasl_continue);
  channel.write(saslResponse(client.respond(serverFirst.toString('utf8'))));
  client.verify((await expectAuthentication(channel, AUTHENTICATION.sasl_final)).toString('utf8'));
  await expectAuthentication(channel, AUTHENTICATION.ok);
}

/** The data of an authentication request of the given kind; no other kind is gone along with. */
async function expectAuthentication(channel: ByteChannel, kind: number): Promise<Buffer> {
  const received = await next(channel);
  const found = received.type === TYPES.authentication && received.body.length >= 4 ? received.body.readInt32BE(0) : -1;
  if (found !== kind) {
    throw new ProtocolError(`the compute sent authentication request ${found} where ${kind} was expected`);
  }
  return received.body.subarray(4);
}

async function receiveGreeting(channel: ByteChannel): Promise<ComputeSession> {
  const greeting: Buffer[] = [];
  let key: BackendKey | undefined;
  let greeting_bytes = 0;
  for (;;) {
    const received = await next(channel);
    if (received.type === TYPES.readyForQuery) {
      const rest = Buffer.concat([received.raw, channel.release()]);
      return { stream: channel.stream, key, greeting, rest };
    }
    greeting_bytes += received.raw.length;
    if (greeting_bytes > LIMITS.compute_login_bytes) throw new ProtocolError("the compute's greeting is too long");
    if (received.type === TYPES.backendKey) key = parseBackendKeyData(received);
    else if (received.type === TYPES.parameterStatus || received.type === TYPES.notice) greeting.push(received.raw);
    else throw new ProtocolError(`the compute sent message type ${received.type} before it was ready`);
  }
}
