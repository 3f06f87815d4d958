import { closeSync, fchmodSync, ftruncateSync, openSync, readSync, type Stats, writeSync } from 'node:fs';

const CHUNK_BYTES = 1024 * 1024;
const HOLE_BYTES = 64 * 1024;
const BLOCK_BYTES = 512;
const ZEROS = Buffer.alloc(HOLE_BYTES);

/**
 * Copies the bytes of an open file to a new one, with its permissions, synchronously. The bound is the size that the
 * file had, so that one that grows does not hold us, and one that shrinks ends early (`fs.copyFile` would never
 * return then). Where the source has holes, long runs of zeros become holes.
 */
export function copyContents(source: number, target: string, stats: Stats, checkpoint: () => void): void {
  const fd = openSync(target, 'wx', 0o600);
  try {
    const buffer = Buffer.allocUnsafeSlow(Math.max(1, Math.min(CHUNK_BYTES, stats.size)));
    const sparse = stats.blocks * BLOCK_BYTES < stats.size;
    let offset = 0;
    while (offset < stats.size) {
      checkpoint();
      const read = readSync(source, buffer, 0, Math.min(buffer.length, stats.size - offset), offset);
      if (read === 0) break;
      const bytes = buffer.subarray(0, read);
      if (sparse) writeWithHoles(fd, bytes, offset);
      else writeFully(fd, bytes, offset);
      offset += read;
    }
    if (sparse) ftruncateSync(fd, offset);
    fchmodSync(fd, stats.mode & 0o777);
  } finally {
    closeSync(fd);
  }
}

function writeWithHoles(fd: number, bytes: Buffer, offset: number): void {
  for (let start = 0; start < bytes.length; start += HOLE_BYTES) {
    const piece = bytes.subarray(start, start + HOLE_BYTES);
    if (!piece.equals(ZEROS.subarray(0, piece.length))) writeFully(fd, piece, offset + start);
  }
}

function writeFully(fd: number, bytes: Buffer, offset: number): void {
  for (let written = 0; written < bytes.length; ) {
    written += writeSync(fd, bytes, written, bytes.length - written, offset + written);
  }
}
