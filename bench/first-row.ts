import pg from 'pg';

/** How a client reaches a compute. */
export interface Way {
  readonly connection_uri: string;
  /** The endpoint's host name: then over TLS, with that name as SNI. Else in plain text, the endpoint in `options`. */
  readonly tls_host?: string;
}

/** The address is given in place of the name, so that looking it up is no part of what is measured. */
function clientConfig({ connection_uri, tls_host }: Way): pg.ClientConfig {
  const uri = new URL(connection_uri);
  return {
    host: '127.0.0.1',
    port: Number(uri.port || 5432),
    user: decodeURIComponent(uri.username),
    password: decodeURIComponent(uri.password),
    database: decodeURIComponent(uri.pathname.slice(1)),
    // A local authority has signed, which this client was not told of: as with sslmode=require.
    ...(tls_host === undefined
      ? { options: uri.searchParams.get('options') ?? undefined }
      : { ssl: { rejectUnauthorized: false, servername: tls_host } }),
  };
}

/** Milliseconds from the TCP connect to the first row of `sql`, the whole SCRAM exchange included. */
export async function firstRow(way: Way, sql = 'select 1'): Promise<number> {
  return timeFirstRow(clientConfig(way), sql);
}

/** The same for any server. */
export async function timeFirstRow(config: pg.ClientConfig, sql = 'select 1'): Promise<number> {
  const began = performance.now();
  const client = new pg.Client(config);
  await client.connect();
  try {
    const { rowCount } = await client.query(sql);
    const took_ms = performance.now() - began;
    if (rowCount !== 1) throw new Error(`"${sql}" returned ${rowCount} rows`);
    return took_ms;
  } finally {
    await client.end();
  }
}

/** Runs `use` with a connected client. */
export async function withClient<T>(way: Way, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(clientConfig(way));
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}
