import { createHmac } from 'node:crypto';
import { DRAW_MAX, type Draw, digits, drawAtRandom, drawFrom, lettersAndDigits, pick } from './draw.ts';
import { DUMMIES, FAKES, loremIpsum } from './fakes.ts';
import { type GivenArguments, type RawRow, type ReadValue, readTime } from './given-arguments.ts';
import { MaskingProblem } from './masking-call.ts';

/** What a function gives; `text` fits into textual columns only, which take everything else, too. `any`: the server decides. */
export type MaskGives =
  | 'text'
  | 'integer'
  | 'number'
  | 'time'
  | 'boolean'
  | 'uuid'
  | 'address'
  | 'any'
  | `${string}range`;

/** What stands in a column afterwards, made of the row as it was. */
export type MaskValue = (row: RawRow) => string | null;

export interface MaskingFunction {
  /** How many arguments it takes, at least and at most. */
  readonly takes: readonly [number, number];
  readonly gives: MaskGives;
  /**
   * @param key a secret of the branch: what is reckoned from a value cannot be found by trying values without it
   * @param type of the column that is masked
   */
  readonly make: (given: GivenArguments, key: Buffer, type: string) => MaskValue;
}

const TEXT_LENGTH_MAX = 10_000;
const draw: Draw = drawAtRandom;

const random = (gives: MaskGives, value: (draw: Draw) => string): MaskingFunction => ({
  takes: [0, 0],
  gives,
  make: () => () => value(draw),
});

/** Of a value that is there; of none there is none. */
const ofValue = (read: ReadValue, change: (value: string) => string): MaskValue => {
  return (row) => {
    const value = read(row);
    return value === null ? null : change(value);
  };
};

/** From `low` to `high`, both of them included. */
function between(low: bigint, high: bigint): MaskValue {
  if (high < low) throw new MaskingProblem('the lower bound must not be above the upper one');
  const count = high - low + 1n;
  if (count <= BigInt(DRAW_MAX)) return () => String(low + BigInt(draw(Number(count))));
  return () => String(low + (((BigInt(draw(DRAW_MAX)) << 47n) + BigInt(draw(DRAW_MAX))) % count));
}

const timeText = (ms: number): string => new Date(ms).toISOString().replace('T', ' ').replace('Z', '+00');

function timeBetween(from: number, to: number): MaskValue {
  if (to < from) throw new MaskingProblem('the earlier time must not be after the later one');
  return () => timeText(from + draw(Math.min(DRAW_MAX, Math.floor(to - from) + 1)));
}

/** At least as much is hidden as is shown: a value that is not longer than what would be shown is hidden whole. */
function partial(value: string, prefix: number, padding: string, suffix: number): string {
  const characters = [...value];
  if (characters.length <= prefix + suffix) return padding;
  const end = suffix === 0 ? '' : characters.slice(-suffix).join('');
  return `${characters.slice(0, prefix).join('')}${padding}${end}`;
}

function partialEmail(value: string): string {
  const [user = '', domain = ''] = value.split('@');
  const ending = domain.includes('.') ? domain.slice(domain.lastIndexOf('.')) : '';
  return `${partial(user, 2, '******', 0)}@${partial(domain.slice(0, domain.length - ending.length), 2, '******', 0)}${ending}`;
}

const hash = (key: Buffer, value: string): string => createHmac('sha256', key).update(`hash:${value}`).digest('hex');

/** From -1 to 1. */
const deviation = (): number => (draw(DRAW_MAX) / DRAW_MAX) * 2 - 1;

function noise(value: string, ratio: number, type: string): string {
  const changed = Number(value) * (1 + deviation() * ratio);
  if (!Number.isFinite(changed)) throw new MaskingProblem('anon.noise met a value that is no number');
  if (type.startsWith('int')) return String(BigInt(Math.round(changed)));
  if (type.startsWith('float')) return String(changed);
  return changed.toFixed(value.includes('.') ? Math.min(100, value.length - value.indexOf('.') - 1) : 0);
}

function timeNoise(value: string, most_ms: number): string {
  const time = readTime(value);
  if (Number.isNaN(time)) throw new MaskingProblem('anon.dnoise met a value that is no time with noise');
  return timeText(time + Math.round(deviation() * most_ms));
}

function generalizeNumber(value: string, step: number): string {
  const number = Number(value);
  if (!Number.isFinite(number)) throw new MaskingProblem('a value that is no number cannot be generalized');
  const low = Math.floor(number / step) * step;
  return `[${low},${low + step})`;
}

const STEPS = ['day', 'week', 'month', 'year', 'decade', 'century'];

function generalizeTime(value: string, step: string, withTime: boolean): string {
  const time = readTime(value);
  if (Number.isNaN(time)) throw new MaskingProblem('a value that is no time cannot be generalized');
  const at = new Date(time);
  const [year, month, day] = [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate()];
  const years = { year: 1, decade: 10, century: 100 }[step];
  const monday = day - ((at.getUTCDay() + 6) % 7);
  const bounds = (): [number, number] => {
    if (years) return [Date.UTC(year - (year % years), 0), Date.UTC(year - (year % years) + years, 0)];
    if (step === 'month') return [Date.UTC(year, month), Date.UTC(year, month + 1)];
    return step === 'week'
      ? [Date.UTC(year, month, monday), Date.UTC(year, month, monday + 7)]
      : [Date.UTC(year, month, day), Date.UTC(year, month, day + 1)];
  };
  const [low, high] = bounds().map((ms) => (withTime ? timeText(ms) : timeText(ms).slice(0, 10)));
  return `["${low}","${high}")`;
}

const numberRange = (gives: MaskGives): MaskingFunction => ({
  takes: [1, 2],
  gives,
  make: (given) => {
    const step = given.count > 1 ? given.number(1) : 10;
    if (step <= 0) throw new MaskingProblem('the step of a range must be above 0');
    return ofValue(given.value(0), (value) => generalizeNumber(value, step));
  },
});

const timeRange = (gives: MaskGives, withTime: boolean): MaskingFunction => ({
  takes: [1, 2],
  gives,
  make: (given) => {
    const step = given.count > 1 ? given.text(1) : 'decade';
    if (!STEPS.includes(step)) throw new MaskingProblem(`the step of a range of time is one of ${STEPS.join(', ')}`);
    return ofValue(given.value(0), (value) => generalizeTime(value, step, withTime));
  },
});

const DUMMIES_GIVE: Readonly<Record<string, MaskGives>> = {
  latitude: 'number',
  longitude: 'number',
  ip: 'address',
  ipv4: 'address',
  ipv6: 'address',
  mac_address: 'any',
  uuidv4: 'uuid',
  boolean: 'boolean',
  building_number: 'integer',
};

const randoms: Readonly<Record<string, MaskingFunction>> = {
  random_string: {
    takes: [1, 1],
    gives: 'text',
    make: (given) => {
      const length = given.integer(0, { min: 0, max: TEXT_LENGTH_MAX });
      return () => lettersAndDigits(draw, length);
    },
  },
  random_int_between: { takes: [2, 2], gives: 'integer', make: (given) => between(given.bigint(0), given.bigint(1)) },
  random_bigint_between: {
    takes: [2, 2],
    gives: 'integer',
    make: (given) => between(given.bigint(0), given.bigint(1)),
  },
  random_date: {
    takes: [0, 0],
    gives: 'time',
    make: () => timeBetween(Date.UTC(1900, 0), Date.now()),
  },
  random_date_between: { takes: [2, 2], gives: 'time', make: (given) => timeBetween(given.time(0), given.time(1)) },
  random_zip: random('text', (draw) => digits(draw, 5)),
  random_phone: {
    takes: [0, 1],
    gives: 'text',
    make: (given) => {
      const prefix = given.count > 0 ? given.text(0) : '0';
      return () => `${prefix}${digits(draw, 9)}`;
    },
  },
  random_hash: { takes: [1, 1], gives: 'text', make: () => () => hash(Buffer.from(digits(draw, 60)), '') },
  random_id: { takes: [0, 0], gives: 'integer', make: () => between(1n, 2n ** 63n - 1n) },
  random_id_int: { takes: [0, 0], gives: 'integer', make: () => between(1n, 2n ** 31n - 1n) },
  random_id_small_int: { takes: [0, 0], gives: 'integer', make: () => between(1n, 2n ** 15n - 1n) },
  random_in: {
    takes: [1, 1],
    gives: 'any',
    make: (given) => {
      const list = given.list(0);
      return () => pick(draw, list);
    },
  },
  random_in_enum: {
    takes: [1, 1],
    gives: 'any',
    make: (given) => {
      const { labels, name } = given.column(0);
      if (labels.length === 0)
        throw new MaskingProblem(`anon.random_in_enum takes a column of an enumeration, not "${name}"`);
      return () => pick(draw, labels);
    },
  },
};

const changes: Readonly<Record<string, MaskingFunction>> = {
  hash: { takes: [1, 1], gives: 'text', make: (given, key) => ofValue(given.value(0), (value) => hash(key, value)) },
  partial: {
    takes: [4, 4],
    gives: 'text',
    make: (given) => {
      const shown = (at: number) => given.integer(at, { min: 0, max: TEXT_LENGTH_MAX });
      const [prefix, padding, suffix] = [shown(1), given.text(2), shown(3)];
      return ofValue(given.value(0), (value) => partial(value, prefix, padding, suffix));
    },
  },
  partial_email: { takes: [1, 1], gives: 'text', make: (given) => ofValue(given.value(0), partialEmail) },
  noise: {
    takes: [2, 2],
    gives: 'number',
    make: (given, _, type) => {
      const ratio = given.number(1);
      return ofValue(given.value(0), (value) => noise(value, ratio, type));
    },
  },
  dnoise: {
    takes: [2, 2],
    gives: 'time',
    make: (given) => {
      const most_ms = given.interval_ms(1);
      return ofValue(given.value(0), (value) => timeNoise(value, most_ms));
    },
  },
  generalize_int4range: numberRange('int4range'),
  generalize_int8range: numberRange('int8range'),
  generalize_numrange: numberRange('numrange'),
  generalize_daterange: timeRange('daterange', false),
  generalize_tsrange: timeRange('tsrange', true),
  generalize_tstzrange: timeRange('tstzrange', true),
  lorem_ipsum: {
    takes: [0, 1],
    gives: 'text',
    make: (given) => {
      const paragraphs = given.count > 0 ? given.integer(0, { min: 1, max: 100 }) : 5;
      return () => loremIpsum(draw, paragraphs);
    },
  },
};

/** The same made-up value for the same seed, and a salt if one is given. */
const pseudonyms = Object.entries(FAKES).map(([name, fake]): [string, MaskingFunction] => [
  `pseudo_${name}`,
  {
    takes: [1, 2],
    gives: 'text',
    make: (given, key) => {
      const salt = given.count > 1 ? given.text(1) : '';
      return ofValue(given.value(0), (value) => fake(drawFrom(key, `${name}:${salt.length}:${salt}:${value}`)));
    },
  },
]);

/** Every function that a rule may name, without its schema `anon`. The names and meanings are those of PostgreSQL Anonymizer. */
export const MASKING_FUNCTIONS: ReadonlyMap<string, MaskingFunction> = new Map([
  ...Object.entries(FAKES).map(([name, fake]): [string, MaskingFunction] => [`fake_${name}`, random('text', fake)]),
  ...Object.entries(DUMMIES).map(([name, fake]): [string, MaskingFunction] => [
    `dummy_${name}`,
    random(DUMMIES_GIVE[name] ?? 'text', fake),
  ]),
  ...Object.entries(randoms),
  ...Object.entries(changes),
  ...pseudonyms,
]);
