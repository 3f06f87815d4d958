import assert from 'node:assert/strict';
import { ENDPOINT, PASSWORD, ROLE } from './gated-postgres.ts';
import type { HttpDoor } from './http-door.ts';

/** The connection string of a gated Postgres, for requests to its own machine. */
export const sqlUrl = ({
  user = ROLE,
  password = PASSWORD,
  more = '',
  options = `endpoint=${ENDPOINT}`,
} = {}): string =>
  `postgresql://${user}:${encodeURIComponent(password)}@localhost/neondb?options=${encodeURIComponent(options)}${more}`;

interface SqlAnswer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers
  readonly body: any;
}

/** A request as it is, without the driver. */
export async function postSql(
  door: HttpDoor,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<SqlAnswer> {
  const response = await fetch(`${door.url}/sql`, {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    headers: { 'neon-connection-string': sqlUrl(), ...headers },
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

/** The one value of a statement without the driver's modes. */
export async function sqlValue(door: HttpDoor, query: string, params: readonly unknown[] = []): Promise<unknown> {
  const { status, body } = await postSql(door, { query, params });
  assert.equal(status, 200, JSON.stringify(body));
  return Object.values(body.rows[0])[0];
}
