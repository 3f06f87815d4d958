import type { PostgresPool, PostgresPoolClient } from 'kysely';
import type pg from 'pg';

/** Texts are few and fixed; should one ever be made of data, those beyond are planned at each execution. */
const NAMES_MAX = 1_000;

/**
 * The pool as Kysely uses it, with a name for each statement that has parameters: a connection parses and plans it once.
 * For most of our statements that took longer than running them.
 */
export function preparedPool(pool: pg.Pool): PostgresPool {
  const names = new Map<string, string>();
  const nameOf = (text: string) => {
    const known = names.get(text);
    if (known !== undefined || names.size >= NAMES_MAX) return known;
    const name = `s${names.size}`;
    names.set(text, name);
    return name;
  };
  // Kysely keeps what it knows of a connection by the client it was given.
  const clients = new WeakMap<pg.PoolClient, PostgresPoolClient>();
  const preparedClient = (client: pg.PoolClient): PostgresPoolClient => ({
    query: ((text: string, values: unknown[]) =>
      client.query(
        values.length === 0 ? text : { name: nameOf(text), text, values },
      )) as unknown as PostgresPoolClient['query'],
    release: () => client.release(),
  });
  return {
    connect: async () => {
      const client = await pool.connect();
      let prepared = clients.get(client);
      if (!prepared) {
        prepared = preparedClient(client);
        clients.set(client, prepared);
      }
      return prepared;
    },
    end: () => pool.end(),
  };
}
