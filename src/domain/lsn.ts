/** A write-ahead log position as Postgres prints it: two hexadecimal halves, `16/B374D848`. */
export type Lsn = string;

const LSN = /^([0-9A-Fa-f]{1,8})\/([0-9A-Fa-f]{1,8})$/;

/** The position in bytes; throws on a text that is not a position. */
export function parseLsn(text: Lsn): bigint {
  const match = LSN.exec(text);
  if (!match) throw new Error(`"${text}" is not a WAL position`);
  return (BigInt(`0x${match[1]}`) << 32n) | BigInt(`0x${match[2]}`);
}

export function formatLsn(position: bigint): Lsn {
  return `${(position >> 32n).toString(16).toUpperCase()}/${(position & 0xffff_ffffn).toString(16).toUpperCase()}`;
}
