import { randomUUID } from 'node:crypto';
import { type PublicSchema, readPublicSchema } from './openapi-contract.ts';

/** Values that a schema of the public API allows, and such that it does not. */

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type PathInJson = readonly (string | number)[];

const DAY_MS = 86_400_000;

export interface ValueSource {
  /** 0 up to 1. */
  readonly random: () => number;
  /** What fields and parameters of these names hold, where any value of the type would not do. */
  readonly known: Readonly<Record<string, Json>>;
  /** How likely a field is there that may be left out. */
  readonly optional: number;
}

const typeOf = (value: Json) => (Array.isArray(value) ? 'array' : typeof value);

/** One that the schema allows. `name` is the field or parameter that holds it. */
export function valueFor(schema: unknown, source: ValueSource, name = ''): Json {
  const read = readPublicSchema(schema);
  const { known, random } = source;
  if (name in known && typeOf(known[name]!) === (read.type ?? 'object').replace('integer', 'number'))
    return known[name]!;
  if (read.enum) return read.enum[Math.floor(random() * read.enum.length)]!;
  switch (read.type) {
    case 'boolean':
      return random() < 0.5;
    case 'integer':
    case 'number':
      return numberOf(read, random);
    case 'array': {
      const count = Math.max(read.minItems ?? 0, Math.floor(random() * 3));
      return Array.from({ length: count }, () => valueFor(read.items, source, `${name}[]`));
    }
    case 'string':
      return textOf(read, random);
    default:
      return objectOf(read, source);
  }
}

function numberOf({ type, minimum = 0, maximum = minimum + 100 }: PublicSchema, random: () => number): number {
  const value = minimum + random() * (maximum - minimum);
  return type === 'integer' ? Math.floor(value) : value;
}

function textOf({ format, pattern }: PublicSchema, random: () => number): string {
  if (format === 'date-time') return new Date(Date.now() + DAY_MS).toISOString();
  if (format === 'uuid') return randomUUID();
  if (format === 'email') return 'somebody@example.test';
  if (pattern) return 'an-unknown-one';
  return `a name ${Math.floor(random() * 1e9)}`;
}

function objectOf({ properties = {}, required = [] }: PublicSchema, source: ValueSource): Json {
  const names = Object.keys(properties).filter((name) => required.includes(name) || source.random() < source.optional);
  return Object.fromEntries(names.map((name) => [name, valueFor(properties[name], source, name)]));
}

/** Every place in a value, containers included. */
export function placesIn(value: Json, path: PathInJson = []): { path: PathInJson; value: Json }[] {
  if (typeof value !== 'object' || value === null) return [{ path, value }];
  const inner = Object.entries(value).flatMap(([name, part]) =>
    placesIn(part, [...path, Array.isArray(value) ? Number(name) : name]),
  );
  return [{ path, value }, ...inner];
}

/** The value with something else in one place; undefined leaves the place out. */
export function replacedIn(body: Json, [first, ...rest]: PathInJson, value: Json | undefined): Json | undefined {
  if (first === undefined) return value;
  const copy = (Array.isArray(body) ? [...body] : { ...(body as object) }) as Record<string | number, Json>;
  const part = replacedIn(copy[first]!, rest, value);
  if (part === undefined) delete copy[first];
  else copy[first] = part;
  return copy as unknown as Json;
}

/** Values of every other type than the one that is right. */
export function wrongTypes(right: Json): Json[] {
  const all: Json[] = ['text', 12_345.5, true, ['item'], { field: 'value' }];
  return all.filter((value) => typeOf(value) !== typeOf(right));
}
