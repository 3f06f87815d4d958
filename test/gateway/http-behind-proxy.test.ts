import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { after, afterEach, before, describe, it } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { addressList } from '../../src/domain/address-rules.ts';
import { serveBehindProxy } from '../../src/gateway/http/behind-proxy.ts';
import { tlsOrPlain } from '../../src/gateway/http/tls-or-plain.ts';
import { ENDPOINT, type GatedPostgres, openGatedPostgres } from '../support/gated-postgres.ts';
import { type HttpDoor, openHttpDoor } from '../support/http-door.ts';
import { proxyHeader, rawProxyHeader } from '../support/proxy-header.ts';
import { sqlUrl } from '../support/sql-requests.ts';
import { until } from '../support/until.ts';

describe('HTTP behind a load balancer', () => {
  const from = addressList(['127.0.0.1']);
  let gated: GatedPostgres;
  const doors: Partial<Record<'allowed' | 'required', HttpDoor>> = {};
  before(async () => {
    gated = await openGatedPostgres();
    for (const mode of ['allowed', 'required'] as const) {
      doors[mode] = await openHttpDoor(gated.gateway, (server) => {
        tlsOrPlain(server, gated.certificates);
        serveBehindProxy(server, { required: mode === 'required', from });
      });
    }
  });
  afterEach(() => {
    gated.directory.entry = { ...gated.directory.entry, access: undefined };
  });
  after(async () => {
    for (const door of Object.values(doors)) await door[Symbol.asyncDispose]();
    await gated?.[Symbol.asyncDispose]();
  });

  interface Way {
    readonly mode?: 'allowed' | 'required';
    readonly header?: Buffer;
    readonly localAddress?: string;
    readonly tls?: boolean;
    /** One byte a packet. */
    readonly slowly?: boolean;
    /** Requests on the connection, one after another. */
    readonly requests?: number;
  }

  const BODY = JSON.stringify({ query: 'SELECT 1 AS one' });
  const request = (last: boolean) =>
    [
      'POST /sql HTTP/1.1',
      `Host: ${ENDPOINT}.localhost`,
      `Neon-Connection-String: ${sqlUrl()}`,
      `Content-Length: ${BODY.length}`,
      `Connection: ${last ? 'close' : 'keep-alive'}`,
      '',
      BODY,
    ].join('\r\n');

  /** Everything that is answered until the server closes. */
  async function ask({ mode = 'allowed', header, localAddress, tls, slowly, requests = 1 }: Way): Promise<string> {
    const socket = createConnection({ port: doors[mode]!.port, host: '127.0.0.1', localAddress, noDelay: true });
    await once(socket, 'connect');
    for (const part of header ? (slowly ? [...header].map((byte) => Buffer.of(byte)) : [header]) : []) {
      await new Promise((resolve) => socket.write(part, resolve));
    }
    const opened: Socket = tls ? connectTls({ socket, ca: gated.authority_pem, servername: 'api.localhost' }) : socket;
    for (let at = 1; at <= requests; at++) opened.write(request(at === requests));
    return text(opened);
  }

  const client = proxyHeader({ source: '127.0.0.77', port: 4711 });
  const ROWS = /^HTTP\/1\.1 200 [\s\S]*"rows":\[\{"one":1\}\]/;

  it('comes from whom the header names: for the list,', async () => {
    gated.directory.entry = { ...gated.directory.entry, access: { allowed_ips: ['127.0.0.77'], private_only: false } };
    for (const tls of [false, true]) {
      for (const mode of ['allowed', 'required'] as const) assert.match(await ask({ mode, header: client, tls }), ROWS);
      assert.match(await ask({ tls }), /^HTTP\/1\.1 400 [\s\S]*This IP address 127\.0\.0\.1 is not allowed/);
    }
  });

  it('for the log,', async () => {
    gated.directory.entry = { ...gated.directory.entry, access: { allowed_ips: ['127.0.0.1'], private_only: false } };
    await ask({ header: proxyHeader({ source: '127.0.0.78', port: 99 }), tls: true });
    await until(() => gated.logged.some(({ peer }) => peer === '127.0.0.78:99'), { what: 'the line in the log' });
  });

  it('and where public addresses are blocked', async () => {
    gated.directory.entry = { ...gated.directory.entry, access: { private_only: true } };
    const elsewhere = proxyHeader({ source: '198.51.100.9', port: 1 });
    assert.match(await ask({ header: elsewhere, tls: true }), /public network: 198\.51\.100\.9/);
  });

  it('is served byte for byte, and for all requests of a connection', async () => {
    const answer = await ask({ mode: 'required', header: client, slowly: true, requests: 3 });
    assert.equal(answer.match(/"rows":\[\{"one":1\}\]/g)?.length, 3);
  });

  it('keeps its own address behind a header that stands for nobody', async () => {
    gated.directory.entry = { ...gated.directory.entry, access: { allowed_ips: ['127.0.0.1'], private_only: false } };
    assert.match(await ask({ mode: 'required', header: rawProxyHeader(0x20, 0, Buffer.alloc(0)) }), ROWS);
  });

  it('is refused in plain HTTP where the header is missing, broken or from elsewhere', async () => {
    const refused = (problem: string) => new RegExp(`^HTTP/1\\.1 400 Bad Request\r\n[\\s\\S]*${problem}`);
    assert.match(await ask({ mode: 'required' }), refused('have to begin with a header of the PROXY protocol'));
    const untrusted = refused('not taken from 127\\.0\\.0\\.2');
    assert.match(await ask({ header: client, localAddress: '127.0.0.2' }), untrusted);
    assert.match(await ask({ header: rawProxyHeader(0x21, 0x31, Buffer.alloc(0)) }), refused('cannot be read'));
  });
});
