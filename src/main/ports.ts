import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';
import { StartError } from './start-error.ts';

/**
 * Free ports are looked for here: below the ports that Linux gives to outgoing connections (32768 and up, ip(7)), one of which
 * may take a port between this choice and the moment when it is listened on.
 */
const FREE_PORTS = { first: 15_000, end: 30_000 };
const TRIES = 50;

/**
 * The port to listen on: the given one, or a free one in place of 0, since it stands in every connection string. Throws
 * StartError when it is taken on one of the addresses, before anything else is begun.
 */
export async function choosePort(addresses: readonly string[], port: number, flag: string): Promise<number> {
  if (port !== 0) return tryPort(addresses, port, flag);
  for (let tries = 1; tries < TRIES; tries += 1) {
    const free = await tryPort(addresses, randomInt(FREE_PORTS.first, FREE_PORTS.end), flag).catch(ignoreTaken);
    if (free) return free;
  }
  return tryPort(addresses, randomInt(FREE_PORTS.first, FREE_PORTS.end), flag);
}

async function tryPort(addresses: readonly string[], port: number, flag: string): Promise<number> {
  for (const address of addresses) {
    const server = createServer();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once('error', reject).listen({ host: address, port, exclusive: true }, () => server.close(() => resolve()));
    await promise.catch((error: NodeJS.ErrnoException) => {
      throw new StartError(listenProblem(error, address, port, flag), { cause: error });
    });
  }
  return port;
}

function ignoreTaken(error: Error): undefined {
  if ((error.cause as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
}

/** What is wrong with listening on a port, and which flag changes it. */
function listenProblem({ code }: NodeJS.ErrnoException, address: string, port: number, flag: string): string {
  if (code === 'EADDRINUSE')
    return `port ${port} on ${address} is in use: stop what listens there, or choose another port with ${flag}`;
  if (code === 'EACCES')
    return `port ${port} on ${address} is not open to this user: choose one above 1023 with ${flag}`;
  if (code === 'EADDRNOTAVAIL') return `${address} is not an address of this machine: choose others with --listen`;
  return `port ${port} on ${address} cannot be listened on (${code})`;
}
