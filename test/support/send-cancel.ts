import { once } from 'node:events';
import { createConnection } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { BackendKey } from '../../src/wire/backend-messages.ts';
import { cancelRequest } from '../../src/wire/frontend-messages.ts';

const SSL_REQUEST = Buffer.from('0000000804d2162f', 'hex');

/** Sends a cancel request and waits for the other side to close; gives what it said. */
export async function sendCancel({
  port,
  key,
  tls = false,
}: {
  port: number;
  key: BackendKey;
  tls?: boolean;
}): Promise<string> {
  const socket = createConnection({ port, host: '127.0.0.1' });
  let said = '';
  if (!tls) {
    socket.on('data', (chunk) => {
      said += chunk;
    });
    socket.end(cancelRequest(key));
    await once(socket, 'close');
    return said;
  }
  socket.write(SSL_REQUEST);
  await once(socket, 'data');
  const secured = connectTls({ socket, rejectUnauthorized: false });
  secured.on('data', (chunk) => {
    said += chunk;
  });
  secured.end(cancelRequest(key));
  await once(secured, 'close');
  return said;
}
