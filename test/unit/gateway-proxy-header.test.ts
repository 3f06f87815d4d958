import assert from 'node:assert/strict';
import { SocketAddress } from 'node:net';
import { describe, it } from 'node:test';
import { takeProxyHeader } from '../../src/gateway/proxy-header.ts';
import { Refusal } from '../../src/gateway/refusal.ts';
import { headerField, proxyHeader, rawProxyHeader } from '../support/proxy-header.ts';
import { seededRandom, testSeed } from '../support/random.ts';

const malformed = (problem: RegExp) => (error: Error) => {
  assert.ok(error instanceof Refusal);
  assert.equal(error.code, '08P01');
  assert.match(error.message, problem);
  return true;
};

describe('a header of the PROXY protocol', () => {
  const seed = testSeed();
  const random = seededRandom(seed);
  const below = (bound: number) => Math.floor(random() * bound);
  const bytes = (length: number) => Buffer.from(Array.from({ length }, () => below(256)));
  const randomParts = () => {
    const four = random() < 0.5;
    const source = four
      ? [...bytes(4)].join('.')
      : Array.from({ length: 8 }, () => (random() < 0.4 ? 0 : below(65_536)).toString(16)).join(':');
    const fields = Array.from({ length: below(4) }, () => headerField(below(256), bytes(below(300))));
    return { source, port: below(65_536), fields, four };
  };

  it(`tells the client, wherever it is cut, and takes nothing of what follows (seed ${seed})`, () => {
    for (let round = 0; round < 300; round++) {
      const { four, ...parts } = randomParts();
      const header = proxyHeader(parts);
      const remoteAddress = four ? parts.source : new SocketAddress({ address: parts.source, family: 'ipv6' }).address;
      const client = { remoteAddress, remotePort: parts.port };
      for (let cut = 1; cut < header.length; cut += 1 + below(9)) {
        assert.equal(takeProxyHeader(header.subarray(0, cut)), undefined, `cut at ${cut} of ${header.toString('hex')}`);
      }
      const taken = takeProxyHeader(Buffer.concat([header, bytes(below(50))]));
      assert.deepEqual(taken, { value: { kind: 'client', client }, bytes: header.length });
    }
  });

  it(`that is damaged is refused, or waited for within its bound, or is another header (seed ${seed})`, () => {
    for (let round = 0; round < 2000; round++) {
      const header = Buffer.concat([proxyHeader(randomParts()), bytes(8)]);
      const at = below(header.length);
      header[at] = below(256);
      try {
        const taken = takeProxyHeader(header);
        if (taken) assert.ok(taken.bytes <= header.length);
        else assert.ok(header.readUInt16BE(14) <= 4096);
      } catch (error) {
        malformed(/cannot be read/)(error as Error);
      }
    }
  });

  it('is not there where the first byte is another', () => {
    for (const first of [0x00, 0x16, 0x50]) {
      assert.deepEqual(takeProxyHeader(Buffer.from([first, 0, 0])), { value: { kind: 'none' }, bytes: 0 });
    }
  });

  it('may be of the balancer itself, or of nobody known', () => {
    const own = { kind: 'own' };
    assert.deepEqual(takeProxyHeader(rawProxyHeader(0x20, 0x00, Buffer.alloc(0))), { value: own, bytes: 16 });
    assert.deepEqual(takeProxyHeader(rawProxyHeader(0x20, 0x11, bytes(5))), { value: own, bytes: 21 });
    assert.deepEqual(takeProxyHeader(rawProxyHeader(0x21, 0x00, bytes(7))), { value: own, bytes: 23 });
  });

  it('is refused where it is not one', () => {
    const refused = (header: Buffer, problem: RegExp) =>
      assert.throws(() => takeProxyHeader(header), malformed(problem));
    refused(Buffer.from('\r\nX'), /signature/);
    refused(rawProxyHeader(0x11, 0x11, bytes(12)), /version is 1/);
    refused(rawProxyHeader(0x22, 0x11, bytes(12)), /command/);
    refused(rawProxyHeader(0x21, 0x12, bytes(12)), /not of a TCP connection/);
    refused(rawProxyHeader(0x21, 0x31, bytes(216)), /not of a TCP connection/);
    refused(rawProxyHeader(0x21, 0x11, bytes(11)), /addresses are cut off/);
    refused(rawProxyHeader(0x21, 0x21, bytes(35)), /addresses are cut off/);
    refused(rawProxyHeader(0x21, 0x11, Buffer.concat([bytes(12), Buffer.from([4, 0])])), /last field/);
    refused(rawProxyHeader(0x21, 0x11, Buffer.concat([bytes(12), Buffer.from([4, 0, 1])])), /last field/);
    refused(rawProxyHeader(0x21, 0x11, bytes(4097)).subarray(0, 16), /too long/);
  });
});
