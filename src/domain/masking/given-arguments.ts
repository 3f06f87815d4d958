import { type MaskingArgument, type MaskingCall, MaskingProblem } from './masking-call.ts';

/** A column of the table that is masked. */
export interface TableColumn {
  readonly name: string;
  /** Name of its type, of the one below a domain: `int4`, `varchar`. */
  readonly type: string;
  /** Those of an enumeration. */
  readonly labels: readonly string[];
}

/** A row as it was, column by column, in the text form of each type. */
export type RawRow = readonly (string | null)[];
export type ReadValue = (row: RawRow) => string | null;

const INTEGER = /^[+-]?\d{1,19}$/;

/** The arguments of a call, each read as what its function takes it for. All of it throws MaskingProblem. */
export interface GivenArguments {
  readonly count: number;
  /** Of each row: a column, or the same for all. */
  value(at: number): ReadValue;
  column(at: number): TableColumn;
  text(at: number): string;
  integer(at: number, bounds: { min: number; max: number }): number;
  bigint(at: number): bigint;
  number(at: number): number;
  /** Milliseconds. */
  time(at: number): number;
  /** Milliseconds, of `'2 days'` or `'1 year 6 months'`; a month has 30 days, a year 365. */
  interval_ms(at: number): number;
  list(at: number): readonly string[];
}

export function givenArguments(
  call: MaskingCall,
  columns: readonly TableColumn[],
  needs: (column: number) => void,
): GivenArguments {
  const name = `anon.${call.name}`;
  const wrong = (at: number, problem: string) => new MaskingProblem(`argument ${at + 1} of ${name} ${problem}`);
  const given = (at: number): MaskingArgument => {
    const argument = call.arguments[at];
    if (!argument) throw new MaskingProblem(`${name} takes more arguments`);
    return argument;
  };
  const position = (at: number, column: string): number => {
    const found = columns.findIndex((one) => one.name === column);
    if (found < 0) throw wrong(at, `names a column that the table does not have: "${column}"`);
    return found;
  };
  const literal = (at: number): string => {
    const argument = given(at);
    if (argument.kind !== 'literal') throw wrong(at, 'must be a string or a number');
    return argument.value;
  };
  const checked = (at: number, what: string, isRight: (text: string) => boolean): string => {
    const text = literal(at);
    if (!isRight(text)) throw wrong(at, `must be ${what}, and is "${text}"`);
    return text;
  };
  return {
    count: call.arguments.length,
    value: (at) => {
      const argument = given(at);
      if (argument.kind === 'null') return () => null;
      if (argument.kind === 'literal') return () => argument.value;
      if (argument.kind === 'list') throw wrong(at, 'must be one value');
      const column = position(at, argument.name);
      needs(column);
      return (row) => row[column]!;
    },
    column: (at) => {
      const argument = given(at);
      if (argument.kind !== 'column') throw wrong(at, 'must be a column');
      return columns[position(at, argument.name)]!;
    },
    text: literal,
    integer: (at, { min, max }) => {
      const between = (text: string) => INTEGER.test(text) && Number(text) >= min && Number(text) <= max;
      return Number(checked(at, `a whole number from ${min} to ${max}`, between));
    },
    bigint: (at) => BigInt(checked(at, 'a whole number', (text) => INTEGER.test(text)).replace('+', '')),
    number: (at) => Number(checked(at, 'a number', (text) => text !== '' && Number.isFinite(Number(text)))),
    time: (at) => readTime(checked(at, 'a date, or a date and time', (text) => !Number.isNaN(readTime(text)))),
    interval_ms: (at) => readInterval(checked(at, "an interval such as '2 days'", (text) => readInterval(text) >= 0)),
    list: (at) => {
      const argument = given(at);
      if (argument.kind !== 'list' || argument.values.length === 0) throw wrong(at, 'must be ARRAY[...] with values');
      return argument.values;
    },
  };
}

const TIME = /^(\d{4,6}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?))?\s*(Z|[+-]\d\d(?::?\d\d)?)?$/;

/** Milliseconds of what Postgres writes for a date or a time; NaN for `infinity`, years before Christ and nonsense. */
export function readTime(text: string): number {
  const [, day, time = '00:00:00', zone = 'Z'] = TIME.exec(text) ?? [];
  if (day === undefined) return Number.NaN;
  const offset = zone === 'Z' ? 'Z' : `${zone.slice(0, 3)}:${zone.slice(3).replace(':', '') || '00'}`;
  return Date.parse(`${day}T${time}${offset}`);
}

const UNITS_MS: Readonly<Record<string, number>> = {
  second: 1000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
  week: 7 * 86_400_000,
  month: 30 * 86_400_000,
  year: 365 * 86_400_000,
};

/** NaN for what is not understood. */
function readInterval(text: string): number {
  const parts = [...text.trim().matchAll(/(\d+(?:\.\d+)?)\s*([a-z]+?)s?(?:\s+|$)/gi)];
  if (parts.length === 0 || parts.map(([part]) => part).join('') !== text.trim()) return Number.NaN;
  return parts.reduce(
    (sum, [, number, unit]) => sum + Number(number) * (UNITS_MS[unit!.toLowerCase()] ?? Number.NaN),
    0,
  );
}
