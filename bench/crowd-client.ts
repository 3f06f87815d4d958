import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { createVerifier } from '../src/domain/scram-verifier.ts';
import { parseErrorFields } from '../src/wire/backend-messages.ts';
import { keysFromPassword } from '../src/wire/cleartext-password.ts';
import { query, saslInitialResponse, saslResponse, startupMessage } from '../src/wire/frontend-messages.ts';
import { int32, message, takeMessage } from '../src/wire/message.ts';
import type { ScramKeys } from '../src/wire/scram.ts';
import { SCRAM_SHA_256 } from '../src/wire/scram.ts';
import { scramClient } from '../src/wire/scram-client.ts';
import type { CrowdTarget } from './crowd.ts';

const MESSAGE_BYTES_MAX = 1024 * 1024;
const TERMINATE = message('X', Buffer.alloc(0));
const SSL_REQUEST = Buffer.concat([int32(8), int32(80877103)]);
const CONNECT_TIMEOUT_MS = 60_000;

/** Deriving them from the password takes milliseconds, which would be most of what a login costs here. */
const derived = new Map<string, Promise<ScramKeys>>();

/** A Postgres client with as little in it as can be: thousands of them are held by one process. */
export class CrowdClient {
  readonly #stream: Duplex;
  #bytes: Buffer = Buffer.alloc(0);
  #ended: Error | undefined;
  #wake: (() => void) | undefined;

  constructor(stream: Duplex) {
    this.#stream = stream;
    stream.on('data', (chunk: Buffer) => {
      this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
      this.#wake?.();
    });
    stream.on('error', (error) => this.#end(error));
    stream.on('close', () => this.#end(new Error('the connection was closed')));
  }

  /** Connects and logs in by SCRAM; the server is ready for a statement then. */
  static async open({ between, login, sslmode }: CrowdTarget): Promise<CrowdClient> {
    const { user, password, database } = login;
    const client = new CrowdClient(await connect(between.port, sslmode === 'require'));
    const options = between.options === undefined ? {} : { options: between.options };
    client.#stream.write(startupMessage(Object.entries({ user, database, ...options })));
    await client.#until('R');
    const nonce = `${Math.random()}`.padEnd(24, '0');
    client.#stream.write(saslInitialResponse(SCRAM_SHA_256, `n,,n=,r=${nonce}`));
    const challenge = (await client.#until('R')).subarray(4).toString();
    const keys = await keysFor(password, challenge);
    client.#stream.write(saslResponse(scramClient(keys, { nonce }).respond(challenge)));
    await client.#until('Z');
    return client;
  }

  /** Runs a statement that returns rows; throws the server's error, and when no row came. */
  async query(sql: string): Promise<void> {
    this.#stream.write(query(sql));
    await this.#until('D');
    await this.#until('Z');
  }

  async close(): Promise<void> {
    if (this.#ended) return;
    const closed = once(this.#stream, 'close');
    this.#stream.end(TERMINATE);
    await closed;
  }

  /** The body of the next message of that type; others are passed over. */
  async #until(letter: string): Promise<Buffer> {
    const type = letter.charCodeAt(0);
    for (;;) {
      const taken = takeMessage(this.#bytes, MESSAGE_BYTES_MAX);
      if (!taken) {
        if (this.#ended) throw this.#ended;
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        continue;
      }
      this.#bytes = this.#bytes.subarray(taken.bytes);
      const { value } = taken;
      if (value.type === type) return value.body;
      if (value.type === 'E'.charCodeAt(0)) throw new Error(parseErrorFields(value.body).message);
    }
  }

  #end(error: Error): void {
    this.#ended ??= error;
    this.#wake?.();
  }
}

async function connect(port: number, tls: boolean): Promise<Duplex> {
  const socket: Socket = createConnection({ port, host: '127.0.0.1', noDelay: true });
  const signal = AbortSignal.timeout(CONNECT_TIMEOUT_MS);
  await once(socket, 'connect', { signal });
  if (!tls) return socket;
  socket.write(SSL_REQUEST);
  const [answer] = await once(socket, 'data', { signal });
  if (answer.toString() !== 'S') throw new Error(`the server answered ${answer} when it was asked for TLS`);
  const encrypted = connectTls({ socket, rejectUnauthorized: false });
  await once(encrypted, 'secureConnect', { signal });
  return encrypted;
}

function keysFor(password: string, challenge: string): Promise<ScramKeys> {
  const [, salt = '', iterations = ''] = /s=([^,]+),i=(\d+)/.exec(challenge) ?? [];
  const name = `${iterations} ${salt} ${password}`;
  const known = derived.get(name) ?? derive(password, salt, Number(iterations));
  derived.set(name, known);
  return known;
}

async function derive(password: string, salt: string, iterations: number): Promise<ScramKeys> {
  const verifier = await createVerifier(password, { salt: Buffer.from(salt, 'base64'), iterations });
  return (await keysFromPassword(password, verifier))!;
}
