import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { pgDump } from '@electric-sql/pglite-tools/pg_dump';
import { FrontendReader, untilReady } from './dump-messages.ts';

/** What the thread is started with. Bytes from the server arrive on `port`; each arrival adds one to `arrivals`. */
export interface DumpWork {
  readonly args: readonly string[];
  /** Sent in place of the start-up message of pg_dump, which always asks for the same user. */
  readonly startup: Uint8Array;
  readonly port: MessagePort;
  readonly arrivals: Int32Array<SharedArrayBuffer>;
}

/** From the server; undefined when it has closed the connection. */
export type ServerBytes = Uint8Array | undefined;

export type DumpReport = { readonly send: Uint8Array } | { readonly sql: string } | { readonly error: string };

/**
 * Runs pg_dump, compiled to WebAssembly, on a thread of its own: it is synchronous, so that the thread sleeps until the
 * server has answered. It sees no files and no network, only the messages that are passed on here.
 */
async function dump({ args, startup, port, arrivals }: DumpWork): Promise<string> {
  const reader = new FrontendReader();
  const say = (report: DumpReport) => parentPort!.postMessage(report);
  const receive = (): ServerBytes => {
    for (;;) {
      const seen = Atomics.load(arrivals, 0);
      const arrived = receiveMessageOnPort(port);
      if (arrived) return arrived.message as ServerBytes;
      Atomics.wait(arrivals, 0, seen);
    }
  };
  const exchange = (written: Uint8Array, { onRawData }: { onRawData: (bytes: Uint8Array) => void }) => {
    const { replies, startup: isStartup } = reader.take(written);
    // What it wrote lies in its own memory, which it will use again.
    if (!isStartup) say({ send: Uint8Array.from(written) });
    else if (replies > 0) say({ send: startup });
    if (replies > 0) onRawData(untilReady(replies, receive));
  };
  // What it asks of the database that it was written for.
  const server = {
    query: async () => ({ rows: [{ search_path: '' }] }),
    exec: async () => [],
    execProtocolRawStream: exchange,
  };
  const file = await pgDump({ pg: server as never, args: [...args] });
  return file.text();
}

const report = (result: DumpReport) => parentPort!.postMessage(result);
dump(workerData as DumpWork).then(
  (sql) => report({ sql }),
  (error: Error) => report({ error: error.message }),
);
