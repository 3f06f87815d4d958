import { isIPv4 } from 'node:net';

const SIGNATURE = '0d0a0d0a000d0a515549540a';

/** Parts of a header of the PROXY protocol, version 2. */
export interface HeaderParts {
  readonly source: string;
  readonly port: number;
  /** What stands behind the addresses. */
  readonly fields?: readonly Buffer[];
}

const ipv4Bytes = (address: string): Buffer => Buffer.from(address.split('.').map(Number));

/** All eight groups have to be written out. */
const ipv6Bytes = (address: string): Buffer =>
  Buffer.from(
    address
      .split(':')
      .map((group) => group.padStart(4, '0'))
      .join(''),
    'hex',
  );

/** The header of a TCP connection of a client to some address of the balancer. */
export function proxyHeader({ source, port, fields = [] }: HeaderParts): Buffer {
  const four = isIPv4(source);
  const target = four ? ipv4Bytes('192.0.2.80') : ipv6Bytes('2001:db8:0:0:0:0:0:80');
  const ports = Buffer.alloc(4);
  ports.writeUInt16BE(port, 0);
  ports.writeUInt16BE(5432, 2);
  const body = Buffer.concat([four ? ipv4Bytes(source) : ipv6Bytes(source), target, ports, ...fields]);
  return rawProxyHeader(0x21, four ? 0x11 : 0x21, body);
}

/** @param command version and command; @param family family and transport, as bytes */
export function rawProxyHeader(command: number, family: number, body: Buffer): Buffer {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(body.length);
  return Buffer.concat([Buffer.from(SIGNATURE, 'hex'), Buffer.from([command, family]), length, body]);
}

/** A field (TLV) behind the addresses. */
export function headerField(type: number, value: Buffer): Buffer {
  const head = Buffer.from([type, 0, 0]);
  head.writeUInt16BE(value.length, 1);
  return Buffer.concat([head, value]);
}
