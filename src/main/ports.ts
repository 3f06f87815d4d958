import { createServer } from 'node:net';
import { StartError } from './start-error.ts';

/** Throws StartError when a port is taken on one of the addresses, before anything else is begun. */
export async function checkPorts(addresses: readonly string[], ports: Readonly<Record<string, number>>): Promise<void> {
  for (const [flag, port] of Object.entries(ports)) {
    for (const address of addresses) if (port !== 0) await checkPort(address, port, flag);
  }
}

async function checkPort(address: string, port: number, flag: string): Promise<void> {
  const server = createServer();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject).listen({ host: address, port, exclusive: true }, () => server.close(() => resolve()));
  await promise.catch((error: NodeJS.ErrnoException) => {
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
