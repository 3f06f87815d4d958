import { type Json, placesIn, replacedIn } from './schema-values.ts';

/** What nobody sends who means well. */

const WORDS = [
  '',
  ' ',
  "'; drop table coppice.projects; --",
  "' or '1'='1",
  '"; select pg_sleep(10); --',
  '$(touch /tmp/coppice-was-here)',
  '`id`; | cat /etc/passwd && exit 1',
  '../../../../etc/passwd',
  'file:///etc/passwd',
  'http://169.254.169.254/latest/meta-data/',
  '%00%0d%0aSet-Cookie: a=b',
  'a\r\nX-Injected: yes',
  '\u0000',
  '\ud800',
  '\u202egnp.exe',
  '🌲'.repeat(300),
  'ﷺ'.repeat(100),
  'x'.repeat(100_000),
  '{{7*7}}#{7*7}<script>alert(1)</script>',
  '\\',
  '%_%',
  '__proto__',
  'constructor',
  'null',
  'NaN',
  '-0',
  '1e400',
  '9007199254740993',
  '2026-02-30T25:61:61Z',
  '+275760-09-13T00:00:00.001Z',
  'infinity',
  '0/FFFFFFFFFFFF',
  'FFFFFFFF/FFFFFFFF',
  'pg_catalog',
  'cloud_admin',
] as const;

const NUMBERS = [-1, 0, 1.5, 0.1 + 0.2, 2 ** 31, 2 ** 53 + 2, -(2 ** 63), 1e308, 5e-324];
const DEEP = Array.from({ length: 200 }).reduce<Json>((inner) => [inner], 'deep');

/** Chooses one of a list that is not empty. */
export function oneAmong<Value>(values: readonly Value[], random: () => number): Value {
  return values[Math.floor(random() * values.length)]!;
}

/** A text that is odd for a name, an id, a time or a number. */
export const hostileText = (random: () => number): string => oneAmong(WORDS, random);

function hostileValue(random: () => number): Json {
  const kind = random();
  if (kind < 0.6) return hostileText(random);
  if (kind < 0.8) return oneAmong(NUMBERS, random);
  return oneAmong<Json>([null, true, false, [], {}, DEEP, Array(1000).fill('x'), { [hostileText(random)]: 1 }], random);
}

/** The body with up to three places changed: another value, another type, gone, or something more. */
export function hostileBody(body: Json, others: readonly string[], random: () => number): Json | undefined {
  let changed: Json | undefined = body;
  for (let count = Math.ceil(random() * 3); count > 0 && changed !== undefined; count -= 1) {
    const { path, value } = oneAmong(placesIn(changed), random);
    const how = random();
    if (how < 0.15) changed = replacedIn(changed, path, undefined);
    else if (how < 0.3 && typeof value === 'object' && value !== null && !Array.isArray(value)) {
      const name = random() < 0.5 ? hostileText(random) : 'project_id';
      changed = replacedIn(changed, path, { ...value, [name]: hostileValue(random) });
    } else changed = replacedIn(changed, path, how < 0.45 ? oneAmong(others, random) : hostileValue(random));
  }
  return changed;
}
