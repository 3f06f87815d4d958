import type { Duplex } from 'node:stream';
import { MessageChannel, Worker } from 'node:worker_threads';
import { SCHEMA_READER } from './access.ts';
import { startupMessage } from './dump-messages.ts';
import type { DumpReport, DumpWork } from './schema-dump-worker.ts';
import { startupOptions } from './session.ts';

export interface DumpRequest {
  readonly database: string;
  /** Of the server. */
  readonly major: number;
  /** `owners`: each owner's objects between `SET SESSION AUTHORIZATION` commands, to be restored as the owners. */
  readonly form: 'plain' | 'owners';
  /** What comes before rows are there, or after; default: all of it. */
  readonly section?: 'pre-data' | 'post-data';
  /** Ends the dump when it fires. */
  readonly signal: AbortSignal;
  /** The longest text that is taken. */
  readonly limit_bytes: number;
}

/** Waiting for a lock of a customer's. */
const LOCK_TIMEOUT_MS = 10_000;
/** What a server may send in all, for each byte of the text that may come of it. */
const REPLY_FACTOR = 8;

/** A schema that could not be read, for a reason that its owner should know. */
export class SchemaUnreadable extends Error {
  override name = 'SchemaUnreadable';
}

/**
 * The schema of one database as pg_dump writes it, without data. It is read as a role that can do nothing but look,
 * which must be there (`ensureSchemaReader`).
 *
 * @param dial a new stream to the server
 * @throws SchemaUnreadable with pg_dump's or the server's words, or the signal's reason
 */
export async function dumpSchema(dial: () => Promise<Duplex>, request: DumpRequest): Promise<string> {
  const { signal, limit_bytes } = request;
  signal.throwIfAborted();
  const stream = await dial();
  const { port1: ours, port2: theirs } = new MessageChannel();
  const arrivals = new Int32Array(new SharedArrayBuffer(4));
  const worker = startWorker({ args: dumpArguments(request), startup: startup(request), port: theirs, arrivals });
  let onAbort = () => {};
  try {
    return await new Promise<string>((resolve, reject) => {
      const fail = (reason: string) => reject(new SchemaUnreadable(reason));
      let received = 0;
      const deliver = (bytes: Uint8Array | undefined) => {
        ours.postMessage(bytes);
        Atomics.add(arrivals, 0, 1);
        Atomics.notify(arrivals, 0);
      };
      stream.on('data', (chunk: Buffer) => {
        received += chunk.length;
        if (received > limit_bytes * REPLY_FACTOR) fail(tooLarge(limit_bytes));
        else deliver(Uint8Array.from(chunk));
      });
      stream.on('error', () => undefined);
      stream.once('close', () => deliver(undefined));
      worker.on('message', (report: DumpReport) => {
        if ('send' in report) stream.write(report.send);
        else if ('error' in report) fail(dumpProblem(report.error));
        else if (Buffer.byteLength(report.sql) > limit_bytes) fail(tooLarge(limit_bytes));
        else resolve(report.sql);
      });
      worker.once('error', (error) => reject(new Error('the thread that reads a schema failed', { cause: error })));
      worker.once('exit', () => reject(new Error('the thread that reads a schema ended')));
      onAbort = () => reject(signal.reason);
      signal.addEventListener('abort', onAbort, { once: true });
      if (signal.aborted) onAbort();
    });
  } finally {
    signal.removeEventListener('abort', onAbort);
    stream.destroy();
    ours.close();
    await worker.terminate();
  }
}

function startWorker(work: DumpWork): Worker {
  return new Worker(new URL('./schema-dump-worker.ts', import.meta.url), {
    name: 'schema dump',
    workerData: work,
    transferList: [work.port],
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: 512 },
  });
}

function dumpArguments({ form, section }: DumpRequest): string[] {
  const owners = form === 'owners' ? ['--use-set-session-authorization'] : [];
  const part = section ? [`--section=${section}`] : [];
  return ['--schema-only', '--no-subscriptions', `--lock-wait-timeout=${LOCK_TIMEOUT_MS}`, ...owners, ...part];
}

function startup({ database, major }: DumpRequest): Uint8Array {
  // pg_dump lifts the limits of its session; whoever calls ends it in time.
  const options = startupOptions(SCHEMA_READER, { lock_timeout_ms: LOCK_TIMEOUT_MS }, major >= 17);
  return startupMessage({
    user: SCHEMA_READER,
    database,
    application_name: 'coppice',
    client_encoding: 'UTF8',
    options,
  });
}

const tooLarge = (limit_bytes: number) => `it is larger than ${limit_bytes} bytes`;

/** Without the name of the program and of a file that nobody sees. */
const dumpProblem = (text: string) =>
  text
    .replace(/^pg_dump failed with exit code \d+\. \nError message: /, '')
    .replaceAll(/(^|\n)?pg_dump: (error: )?/g, '$1')
    .trim();
