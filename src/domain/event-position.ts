/**
 * A place in the log of events: everything up to it has been seen. Events are in the order of their transactions' numbers,
 * and of their own within one.
 */
export interface EventPosition {
  readonly transaction: bigint;
  readonly number: number;
}

/** As the id of an event is shown; the epoch names the log. Clients give it back as it is. */
export const formatEventId = (epoch: string, { transaction, number }: EventPosition): string =>
  `${epoch}-${transaction}-${number}`;

const EVENT_ID = /^([0-9a-f]{8})-(\d{1,19})-(\d{1,15})$/;

/** Reads what `formatEventId` wrote; undefined for any other text. */
export function parseEventId(text: string): { epoch: string; position: EventPosition } | undefined {
  const [, epoch, transaction, number] = EVENT_ID.exec(text) ?? [];
  if (!epoch || !transaction || !number) return undefined;
  return { epoch, position: { transaction: BigInt(transaction), number: Number(number) } };
}

/** Whether `a` lies behind `b`. */
export const isAfter = (a: EventPosition, b: EventPosition): boolean =>
  a.transaction === b.transaction ? a.number > b.number : a.transaction > b.transaction;
