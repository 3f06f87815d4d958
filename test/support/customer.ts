import pg from 'pg';

/** A customer's connection. That it is broken from the other side shows in its queries and as `code` in `broken`. */
export interface CustomerClient extends pg.Client, AsyncDisposable {
  /** SQLSTATE or errno of what ended the connection from the other side. */
  readonly broken: Promise<string | undefined>;
}

export async function connect(uri: string): Promise<CustomerClient> {
  const client = new pg.Client({ connectionString: uri });
  const { promise: broken, resolve } = Promise.withResolvers<string | undefined>();
  client.on('error', (error: Error & { code?: string }) => resolve(error.code));
  await client.connect();
  return Object.assign(client, { broken, [Symbol.asyncDispose]: () => client.end().catch(() => undefined) });
}

/** Runs one statement on a connection of its own. */
// biome-ignore lint/suspicious/noExplicitAny: rows are whatever the statement selects
export async function query(uri: string, sql: string, values?: unknown[]): Promise<any[]> {
  await using client = await connect(uri);
  return (await client.query(sql, values)).rows;
}

/** The SQLSTATE that a connection attempt ends with; undefined when it succeeds. */
export async function refusal(uri: string): Promise<string | undefined> {
  return query(uri, 'select 1').then(
    () => undefined,
    (error: Error & { code?: string }) => error.code ?? error.message,
  );
}
