/** The file a position lies in: timeline, then the segment's number in two halves (Postgres `XLogFileName`). */
export function walSegmentName(timeline: number, position: bigint, segmentBytes: number): string {
  const number = position / BigInt(segmentBytes);
  const perHalf = 0x1_0000_0000n / BigInt(segmentBytes);
  const hex = (value: bigint) => value.toString(16).toUpperCase().padStart(8, '0');
  return hex(BigInt(timeline)) + hex(number / perHalf) + hex(number % perHalf);
}

/** The segments that hold the bytes from one position up to, but not including, another; at least the first's. */
export function walSegmentNames(timeline: number, from: bigint, to: bigint, segmentBytes: number): string[] {
  const size = BigInt(segmentBytes);
  const names: string[] = [];
  const last = to > from ? (to - 1n) / size : from / size;
  for (let number = from / size; number <= last; number++)
    names.push(walSegmentName(timeline, number * size, segmentBytes));
  return names;
}
