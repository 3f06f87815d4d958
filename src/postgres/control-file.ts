import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { formatLsn, type Lsn, parseLsn } from '../domain/lsn.ts';
import { crc32c } from './crc32c.ts';

/** The states of `DBState`, in its order. */
const STATES = [
  'starting up',
  'shut down',
  'shut down in recovery',
  'shutting down',
  'in crash recovery',
  'in archive recovery',
  'in production',
] as const;

/** What `global/pg_control` says (15 to 18). Positions are where records start. */
export interface ControlFile {
  readonly systemIdentifier: bigint;
  /** 1300: 15 and 16; 1700: 17; 1800: 18. */
  readonly version: number;
  readonly catalogVersion: number;
  readonly state: (typeof STATES)[number];
  /** True when a server ended here on its own and nothing has to be replayed. */
  readonly clean: boolean;
  readonly time: Date;
  /** The last checkpoint's record, and where replay from it starts. */
  readonly checkpointLsn: Lsn;
  readonly redoLsn: Lsn;
  readonly timeline: number;
  readonly nextOid: number;
  /** Whether it was on at the last checkpoint: the first change of a page since then is logged with the whole page. */
  readonly fullPageWrites: boolean;
  /** Replay must reach it before the data is consistent; undefined: it is. */
  readonly minRecoveryLsn?: Lsn;
  readonly minRecoveryTimeline: number;
  readonly walLevel: 'minimal' | 'replica' | 'logical';
  /** Settings that the server last ran with, and that a standby of it must not be below. */
  readonly maxConnections: number;
  readonly maxWorkerProcesses: number;
  readonly maxWalSenders: number;
  readonly maxPreparedTransactions: number;
  readonly maxLocksPerTransaction: number;
  readonly walSegmentBytes: number;
  readonly dataChecksums: boolean;
  /** 32 bytes: what SCRAM answers with for a role that does not exist. */
  readonly mockAuthenticationNonce: Buffer;
}

const FILE_BYTES = 8192;
const NONCE_BYTES = 32;
/** `struct ControlFileData`; all numbers are little-endian on the platforms we run on. */
const AT = {
  identifier: 0,
  version: 8,
  catalog: 12,
  state: 16,
  time: 24,
  checkpoint: 32,
  redo: 40,
  timeline: 48,
} as const;
const AT_FULL_PAGE_WRITES = 56;
const AT_NEXT_OID = 72;
/** Where the fields after the copy of the checkpoint start; the copy grew by nothing from 15 to 18. */
const AFTER_CHECKPOINT = 128;
/** Of each version: the nonce and the CRC behind it. 18 has a flag (signedness of char) before the nonce. */
const TAIL: Readonly<Record<number, { nonce: number; crc: number }>> = {
  1300: { nonce: 256, crc: 288 },
  1700: { nonce: 256, crc: 288 },
  1800: { nonce: 257, crc: 292 },
};

/** @throws when the file is no control file of 15 to 18, or its checksum is wrong (it was read while being written) */
export async function readControlFile(dataDirectory: string): Promise<ControlFile> {
  const handle = await openPlain(join(dataDirectory, 'global/pg_control'), constants.O_RDONLY);
  try {
    return parseControlFile(await readBytes(handle));
  } finally {
    await handle.close();
  }
}

/** @param bytes the file's, at least its first 300 */
export function parseControlFile(bytes: Buffer): ControlFile {
  const { nonce } = checkedTail(bytes);
  const position = (offset: number): Lsn => formatLsn(bytes.readBigUInt64LE(offset));
  const minRecovery = position(AFTER_CHECKPOINT + 8);
  const state = STATES[bytes.readUInt32LE(AT.state)] ?? 'starting up';
  return {
    systemIdentifier: bytes.readBigUInt64LE(AT.identifier),
    version: bytes.readUInt32LE(AT.version),
    catalogVersion: bytes.readUInt32LE(AT.catalog),
    state,
    clean: state === 'shut down' || state === 'shut down in recovery',
    time: new Date(Number(bytes.readBigInt64LE(AT.time)) * 1000),
    checkpointLsn: position(AT.checkpoint),
    redoLsn: position(AT.redo),
    timeline: bytes.readUInt32LE(AT.timeline),
    nextOid: bytes.readUInt32LE(AT_NEXT_OID),
    fullPageWrites: bytes[AT_FULL_PAGE_WRITES] === 1,
    minRecoveryLsn: minRecovery === '0/0' ? undefined : minRecovery,
    minRecoveryTimeline: bytes.readUInt32LE(AFTER_CHECKPOINT + 16),
    walLevel: (['minimal', 'replica', 'logical'] as const)[bytes.readUInt32LE(AFTER_CHECKPOINT + 44)] ?? 'minimal',
    maxConnections: bytes.readInt32LE(AFTER_CHECKPOINT + 52),
    maxWorkerProcesses: bytes.readInt32LE(AFTER_CHECKPOINT + 56),
    maxWalSenders: bytes.readInt32LE(AFTER_CHECKPOINT + 60),
    maxPreparedTransactions: bytes.readInt32LE(AFTER_CHECKPOINT + 64),
    maxLocksPerTransaction: bytes.readInt32LE(AFTER_CHECKPOINT + 68),
    walSegmentBytes: bytes.readUInt32LE(AFTER_CHECKPOINT + 100),
    dataChecksums: bytes.readUInt32LE(AFTER_CHECKPOINT + 124) !== 0,
    mockAuthenticationNonce: Buffer.from(bytes.subarray(nonce, nonce + NONCE_BYTES)),
  };
}

function checkedTail(bytes: Buffer): { nonce: number; crc: number } {
  const version = bytes.readUInt32LE(AT.version);
  const tail = TAIL[version];
  if (!tail) throw new Error(`pg_control has version ${version}, which is not that of Postgres 15 to 18`);
  if (crc32c(bytes.subarray(0, tail.crc)) !== bytes.readUInt32LE(tail.crc)) {
    throw new Error('pg_control does not have the checksum it says');
  }
  return tail;
}

/**
 * The control file of a standby that has replayed up to `lsn`, made from that of the server it would be a standby of.
 * @param bytes the server's, whole
 */
export function controlOfStandby(bytes: Buffer, lsn: Lsn): Buffer {
  const { crc } = checkedTail(bytes);
  const made = Buffer.from(bytes);
  made.writeUInt32LE(STATES.indexOf('in archive recovery'), AT.state);
  made.writeBigUInt64LE(parseLsn(lsn), AFTER_CHECKPOINT + 8);
  made.writeUInt32LE(bytes.readUInt32LE(AT.timeline), AFTER_CHECKPOINT + 16);
  made.writeUInt32LE(crc32c(made.subarray(0, crc)), crc);
  return made;
}

/**
 * The control file of a copy of a running server that is on disk as a whole. A server that finds it does not flush every
 * file of its directory before it replays, as it does where it may have been killed with some unwritten (Postgres source,
 * SyncDataDirectory); it replays all the same.
 * @param bytes whole
 */
export function controlOfDurableCopy(bytes: Buffer): Buffer {
  const { crc } = checkedTail(bytes);
  const made = Buffer.from(bytes);
  made.writeUInt32LE(STATES.indexOf('shut down in recovery'), AT.state);
  made.writeUInt32LE(crc32c(made.subarray(0, crc)), crc);
  return made;
}

/**
 * Makes a stopped clone a cluster of its own: a new system identifier, so that Postgres refuses WAL of the cluster it
 * was cloned from and the other way round, and a new nonce. Not atomic: a clone on which it was killed is cloned again.
 * @returns the new identifier
 */
export async function giveIdentity(dataDirectory: string): Promise<bigint> {
  const control = await openPlain(join(dataDirectory, 'global/pg_control'), constants.O_RDWR);
  try {
    const bytes = await readBytes(control);
    const tail = checkedTail(bytes);
    const identifier = newIdentifier();
    const old = bytes.readBigUInt64LE(AT.identifier);
    await renameSegments(join(dataDirectory, 'pg_wal'), old, identifier);
    bytes.writeBigUInt64LE(identifier, AT.identifier);
    randomBytes(NONCE_BYTES).copy(bytes, tail.nonce);
    bytes.writeUInt32LE(crc32c(bytes.subarray(0, tail.crc)), tail.crc);
    await control.write(bytes, 0, bytes.length, 0);
    await control.sync();
    return identifier;
  } finally {
    await control.close();
  }
}

/** As initdb makes it: seconds, microseconds and something of the process; here random bits, since clones are quick. */
function newIdentifier(): bigint {
  const now = Date.now();
  const seconds = BigInt(Math.floor(now / 1000));
  const microseconds = BigInt((now % 1000) * 1000);
  return (seconds << 32n) | (microseconds << 12n) | BigInt(randomBytes(2).readUInt16LE() & 0xfff);
}

const WAL_SEGMENT = /^[0-9A-F]{24}$/;
/** `struct XLogLongPageHeaderData`, on the first page of each segment; page headers carry no checksum. */
const PAGE = { magic: 0, info: 2, identifier: 24, bytes: 40 } as const;
const LONG_HEADER = 0x0002;

async function renameSegments(directory: string, from: bigint, to: bigint): Promise<void> {
  for (const name of await readdir(directory)) {
    if (!WAL_SEGMENT.test(name)) continue;
    const segment = await openPlain(join(directory, name), constants.O_RDWR);
    try {
      const header = Buffer.alloc(PAGE.bytes);
      await segment.read(header, 0, PAGE.bytes, 0);
      // A segment made ahead is empty.
      const written = header.readUInt16LE(PAGE.magic) !== 0 && (header.readUInt16LE(PAGE.info) & LONG_HEADER) !== 0;
      if (!written || header.readBigUInt64LE(PAGE.identifier) !== from) continue;
      header.writeBigUInt64LE(to, PAGE.identifier);
      await segment.write(header, PAGE.identifier, 8, PAGE.identifier);
      await segment.sync();
    } finally {
      await segment.close();
    }
  }
}

/** A customer who broke out of the server could have left a link or a pipe here, to be followed by us. */
async function openPlain(path: string, flags: number): Promise<FileHandle> {
  const handle = await open(path, flags | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  if ((await handle.stat()).isFile()) return handle;
  await handle.close();
  throw new Error(`${path} is not a plain file`);
}

async function readBytes(handle: FileHandle): Promise<Buffer> {
  const bytes = Buffer.alloc(FILE_BYTES);
  const { bytesRead } = await handle.read(bytes, 0, FILE_BYTES, 0);
  if (bytesRead !== FILE_BYTES) throw new Error(`pg_control has ${bytesRead} bytes instead of ${FILE_BYTES}`);
  return bytes;
}
