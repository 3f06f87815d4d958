import type { Message } from '../../wire/message.ts';

/**
 * The parameters that a pooled client keeps for itself, although its server connections are others'. The server reports
 * each of them, so what holds on a connection is always known.
 */
const TRACKED: ReadonlyMap<string, string> = new Map(
  ['client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings', 'application_name', 'IntervalStyle'].map(
    (name) => [name.toLowerCase(), name],
  ),
);

/** Values by the name that the server reports. */
export type Parameters = Map<string, string>;

/** The reported name of a parameter that a client keeps for itself; undefined for any other. */
export const trackedName = (name: string): string | undefined => TRACKED.get(name.toLowerCase());

/** Parts what a client asks for at its start into what it keeps for itself and what its server connections start with. */
export function splitParameters(parameters: ReadonlyMap<string, string>): {
  readonly tracked: Parameters;
  readonly fixed: ReadonlyMap<string, string>;
} {
  const tracked: Parameters = new Map();
  const fixed = new Map<string, string>();
  for (const [name, value] of parameters) {
    const reported = trackedName(name);
    if (reported === 'application_name') tracked.set(reported, cleanName(value));
    else if (reported) tracked.set(reported, value);
    else fixed.set(name, value);
  }
  return { tracked, fixed };
}

const NAME_BYTES = 63;

/** A name of an application as Postgres keeps it. */
const cleanName = (name: string): string =>
  Buffer.from(name)
    .toString('latin1')
    .replace(/[^\x20-\x7e]/g, (byte) => `\\x${byte.charCodeAt(0).toString(16).padStart(2, '0')}`)
    .slice(0, NAME_BYTES);

/** SQL that gives a session the wanted values; undefined when it has them. */
export function setParameters(wanted: Parameters, current: ReadonlyMap<string, string>): string | undefined {
  let sql: string | undefined;
  for (const [name, value] of wanted) {
    if (current.get(name) === value) continue;
    const set = `SET ${name} = ${literal(value)}`;
    sql = sql === undefined ? set : `${sql};${set}`;
  }
  return sql;
}

const literal = (value: string): string => {
  const text = value.replaceAll('\0', '').replaceAll("'", "''");
  return text.includes('\\') ? `E'${text.replaceAll('\\', '\\\\')}'` : `'${text}'`;
};

/** Reads a ParameterStatus. */
export function parseParameterStatus({ body }: Pick<Message, 'body'>): readonly [name: string, value: string] {
  const [name = '', value = ''] = body.toString('utf8').split('\0');
  return [name, value];
}
