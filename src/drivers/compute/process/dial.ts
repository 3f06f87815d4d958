import { closeSync, constants, fstatSync, openSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** Linux, asm-generic/fcntl.h; Node does not name it. */
const O_PATH = 0o10000000;
/** While more connections wait than the server's queue holds. */
const QUEUE_FULL_WAIT_MS = 2000;

/** A connection to a server's socket. Fails with ECONNREFUSED or ENOENT where none listens. */
export async function dialSocket(path: string, owner_uid?: number): Promise<Socket> {
  const deadline = Date.now() + QUEUE_FULL_WAIT_MS;
  for (;;) {
    try {
      return await connectOnce(path, owner_uid);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || Date.now() >= deadline) throw error;
      await delay(10);
    }
  }
}

/**
 * The socket lies where a customer's code may come to run, and could be replaced by a link to another compute's. So we
 * take hold of the very file without following links, look whose it is, and connect to that.
 */
async function connectOnce(path: string, owner_uid: number | undefined): Promise<Socket> {
  if (owner_uid === undefined || process.platform !== 'linux') return established(connect({ path }));
  const file = openSync(path, O_PATH | constants.O_NOFOLLOW);
  try {
    const stat = fstatSync(file);
    if (!stat.isSocket() || stat.uid !== owner_uid) throw refused(path);
    return await established(connect({ path: `/proc/self/fd/${file}` }));
  } finally {
    closeSync(file);
  }
}

function established(socket: Socket): Promise<Socket> {
  return new Promise((resolve, reject) => {
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
  });
}

function refused(path: string): NodeJS.ErrnoException {
  const error: NodeJS.ErrnoException = new Error(`connect ECONNREFUSED ${path}: it is not the socket of its server`);
  error.code = 'ECONNREFUSED';
  return error;
}
