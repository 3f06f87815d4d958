import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { createVerifier } from '../../src/domain/scram-verifier.ts';
import { parseErrorFields } from '../../src/wire/backend-messages.ts';
import { keysFromPassword } from '../../src/wire/cleartext-password.ts';
import { saslInitialResponse, saslResponse, startupMessage } from '../../src/wire/frontend-messages.ts';
import { type Message, takeMessage } from '../../src/wire/message.ts';
import { scramClient } from '../../src/wire/scram-client.ts';

/** A client that sends what a test wants, and reads messages one by one. */
export class WireClient {
  readonly stream: Duplex;
  #bytes = Buffer.alloc(0);
  #ended = false;
  #wake: (() => void) | undefined;

  constructor(stream: Duplex) {
    this.stream = stream;
    const wake = () => {
      this.#wake?.();
      this.#wake = undefined;
    };
    stream.on('data', (chunk: Buffer) => {
      this.#bytes = Buffer.concat([this.#bytes, chunk]);
      wake();
    });
    for (const event of ['end', 'close', 'error']) {
      stream.on(event, () => {
        this.#ended = true;
        wake();
      });
    }
  }

  send(...parts: Buffer[]): void {
    this.stream.write(Buffer.concat(parts));
  }

  /** The next `length` raw bytes, or fewer when the peer closes first. */
  async bytes(length: number): Promise<Buffer> {
    while (this.#bytes.length < length && !this.#ended) await this.#more();
    const taken = this.#bytes.subarray(0, length);
    this.#bytes = this.#bytes.subarray(taken.length);
    return taken;
  }

  /** The next message; undefined when the peer has closed. */
  async message(): Promise<(Message & { readonly letter: string }) | undefined> {
    for (;;) {
      const taken = takeMessage(this.#bytes, 2 ** 30);
      if (taken) {
        this.#bytes = this.#bytes.subarray(taken.bytes);
        return { ...taken.value, letter: String.fromCharCode(taken.value.type) };
      }
      if (this.#ended) return undefined;
      await this.#more();
    }
  }

  /** Messages up to the first of the given type, that one included; fails when the peer closes first. */
  async until(letter: string): Promise<(Message & { readonly letter: string })[]> {
    const seen: (Message & { readonly letter: string })[] = [];
    for (;;) {
      const received = await this.message();
      if (!received) throw new Error(`the server closed before it sent ${letter}`);
      seen.push(received);
      if (received.letter === letter) return seen;
      if (received.letter === 'E') throw new Error(parseErrorFields(received.body).message);
    }
  }

  /** Everything up to the end of the connection. */
  async rest(): Promise<Buffer> {
    while (!this.#ended) await this.#more();
    return this.#bytes;
  }

  close(): void {
    this.stream.destroy();
  }

  #more(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}

export async function openWire(port: number, { allowHalfOpen = false } = {}): Promise<WireClient> {
  const socket: Socket = createConnection({ port, host: '127.0.0.1', allowHalfOpen, noDelay: true });
  const client = new WireClient(socket);
  await once(socket, 'connect');
  return client;
}

/** TLS from the first byte, without SSLRequest. */
export async function openDirectTls(
  port: number,
  options: { servername?: string; ca?: string; ALPNProtocols?: string[] },
): Promise<WireClient & { readonly stream: TLSSocket }> {
  const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: options.ca !== undefined, ...options });
  await once(socket, 'secureConnect');
  return new WireClient(socket) as WireClient & { readonly stream: TLSSocket };
}

/** Sends a start-up packet and goes through SCRAM; the next message is the one after AuthenticationOk, or an error. */
export async function logIn(
  client: WireClient,
  parameters: Readonly<Record<string, string>>,
  password: string,
): Promise<void> {
  client.send(startupMessage(Object.entries(parameters)));
  await client.until('R');
  const nonce = 'a-nonce-of-a-test';
  client.send(saslInitialResponse('SCRAM-SHA-256', `n,,n=,r=${nonce}`));
  const [challenge] = await client.until('R');
  const serverFirst = challenge!.body.subarray(4).toString();
  const [, salt, iterations] = /s=([^,]+),i=(\d+)/.exec(serverFirst)!;
  const parts = { salt: Buffer.from(salt!, 'base64'), iterations: Number(iterations) };
  const keys = await keysFromPassword(password, await createVerifier(password, parts));
  client.send(saslResponse(scramClient(keys!, { nonce }).respond(serverFirst)));
  await client.until('R');
  await client.until('R');
}
