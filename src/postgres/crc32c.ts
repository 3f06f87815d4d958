/** CRC-32C (Castagnoli), reflected; Postgres guards its control file and its WAL records with it. */
const TABLE = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0x82f6_3b78 : value >>> 1;
  return value;
});

/**
 * The checksum of the bytes, as an unsigned number.
 * @param before the checksum of what precedes them, where bytes come in pieces
 */
export function crc32c(bytes: Uint8Array, before = 0): number {
  let crc = before ^ 0xffff_ffff;
  for (let index = 0; index < bytes.length; index++) {
    crc = (TABLE[(crc ^ (bytes[index] as number)) & 0xff] as number) ^ (crc >>> 8);
  }
  return (crc ^ 0xffff_ffff) >>> 0;
}
