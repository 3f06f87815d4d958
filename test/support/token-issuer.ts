import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type CryptoKey, exportJWK, generateKeyPair } from 'jose';

/** An issuer of tokens: its keys, and the server that shows the public ones. */
export interface TestIssuer {
  readonly url: string;
  readonly keys: Map<string, { readonly algorithm: string; readonly key: CryptoKey }>;
  fetches: number;
  /** Connections, whatever came of them. */
  connections: number;
  /** Answers instead of the keys. */
  broken: { readonly status: number; readonly body: string } | 'silent' | undefined;
  add(kid: string, algorithm: string): Promise<void>;
  /** Shows none of its keys any more. */
  hideKeys(): void;
  close(): void;
}

/** Opens one without keys on a free port of this machine. */
export async function openIssuer(): Promise<TestIssuer> {
  const shown: object[] = [];
  const server = createServer((_request, response) => {
    issuer.fetches++;
    if (issuer.broken === 'silent') return;
    const { status, body } = issuer.broken ?? { status: 200, body: JSON.stringify({ keys: shown }) };
    response.writeHead(status, status === 302 ? { location: '/elsewhere' } : {}).end(body);
  });
  server.on('connection', () => issuer.connections++);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer: TestIssuer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks.json`,
    keys: new Map(),
    fetches: 0,
    connections: 0,
    broken: undefined,
    async add(kid, algorithm) {
      const { publicKey, privateKey } = await generateKeyPair(algorithm, { extractable: true });
      issuer.keys.set(kid, { algorithm, key: privateKey });
      shown.push({ ...(await exportJWK(publicKey)), kid, alg: algorithm });
    },
    hideKeys: () => void shown.splice(0),
    close: () => server.close().closeAllConnections(),
  };
  return issuer;
}
