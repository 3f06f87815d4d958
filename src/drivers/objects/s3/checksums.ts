import { createHash, type Hash } from 'node:crypto';

/** As S3 writes it: base64. */
export const sha256Of = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('base64');

/** Of an object of several parts: the checksum of their checksums, and how many they are. */
export function compositeOf(parts: readonly string[]): string {
  const sums = Buffer.concat(parts.map((sum) => Buffer.from(sum, 'base64')));
  return `${sha256Of(sums)}-${parts.length}`;
}

/** Reckons the checksum of what is added, piece by piece. */
export interface RunningChecksum {
  add(bytes: Buffer): void;
  /** Whether all that was added is what was promised; call it once, at the end. */
  matches(): boolean;
}

/**
 * @param promised as the store tells it; undefined where it has none
 * @param part_bytes of each part but the last; undefined where that is not known, and nothing can be checked
 */
export function checksumAgainst(promised: string | undefined, part_bytes: number | undefined): RunningChecksum {
  const composite = promised?.includes('-') ?? false;
  if (promised === undefined || (composite && !part_bytes)) return { add: () => undefined, matches: () => true };
  const whole = composite ? part_bytes! : Number.POSITIVE_INFINITY;
  const sums: string[] = [];
  let part: Hash = createHash('sha256');
  let filled = 0;
  const close = () => {
    sums.push(part.digest('base64'));
    part = createHash('sha256');
    filled = 0;
  };
  return {
    add: (bytes) => {
      for (let offset = 0; offset < bytes.length; ) {
        const piece = bytes.subarray(offset, offset + whole - filled);
        part.update(piece);
        offset += piece.length;
        filled += piece.length;
        if (filled === whole) close();
      }
    },
    matches: () => {
      if (filled > 0 || !composite) close();
      return (composite ? compositeOf(sums) : sums[0]) === promised;
    },
  };
}
