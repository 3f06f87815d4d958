import { type AddressInfo, createServer } from 'node:net';
import { StartError } from './start-error.ts';

/**
 * The port to listen on: the given one, or a free one in place of 0, since it stands in every connection string. Throws
 * StartError when it is taken on one of the addresses, before anything else is begun.
 */
export async function choosePort(addresses: readonly string[], port: number, flag: string): Promise<number> {
  let chosen = port;
  for (const address of addresses) chosen = await tryPort(address, chosen, flag);
  return chosen;
}

async function tryPort(address: string, port: number, flag: string): Promise<number> {
  const server = createServer();
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  server.once('error', reject).listen({ host: address, port, exclusive: true }, () => {
    const { port: bound } = server.address() as AddressInfo;
    server.close(() => resolve(bound));
  });
  return promise.catch((error: NodeJS.ErrnoException) => {
    throw new StartError(listenProblem(error, address, port, flag));
  });
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
