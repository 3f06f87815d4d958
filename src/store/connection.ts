import { Kysely, PostgresDialect, type PostgresPool, type Transaction } from 'kysely';
import pg from 'pg';
import { preparedPool } from './prepared-pool.ts';
import type { Schema } from './schema.ts';

/** Our own database. Statements take it or a transaction on it. */
export type Store = Kysely<Schema>;
export type StoreTransaction = Transaction<Schema>;

export interface StoreOptions {
  /** How to reach it: a URL, or host (a socket directory) and database. */
  readonly connection: pg.ClientConfig;
  readonly application_name: string;
  readonly connections_max: number;
  /**
   * `false` for observations: they can be asked of the world again, so a commit need not wait for the disk.
   * Intent that is acknowledged to a caller always waits.
   */
  readonly durable: boolean;
  /** An idle connection broke; the pool replaces it. */
  readonly onError: (error: Error) => void;
}

const INT8_OID = 20;
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) =>
    // bigint as number: sizes, ids and generations stay far below 2^53.
    oid === INT8_OID && format !== 'binary' ? Number : pg.types.getTypeParser(oid, format),
};

export interface OpenStore {
  readonly store: Store;
  readonly pool: pg.Pool;
  close(): Promise<void>;
}

const pools = new WeakMap<Store, PostgresPool>();

/** The connections of an open store, for another view of it. */
export function poolOf(store: Store): PostgresPool {
  const pool = pools.get(store);
  if (!pool) throw new Error('not a store that was opened here');
  return pool;
}

/** Opens a pool on our own database. Names resolve in schema `coppice`. */
export function openStore(options: StoreOptions): OpenStore {
  const durability = options.durable ? '' : ' -c synchronous_commit=off';
  const pool = new pg.Pool({
    ...options.connection,
    application_name: options.application_name,
    max: options.connections_max,
    connectionTimeoutMillis: 10_000,
    idleTimeoutMillis: 60_000,
    options: `-c search_path=coppice -c statement_timeout=30000 -c lock_timeout=20000${durability}`,
    types,
  });
  // While it closes, a server that stops at the same time may be faster.
  const onError = (error: Error) => {
    if (!pool.ending) options.onError(error);
  };
  pool.on('error', onError);
  pool.on('connect', (client) => client.on('error', onError));
  const prepared = preparedPool(pool);
  const store: Store = new Kysely<Schema>({ dialect: new PostgresDialect({ pool: prepared }) });
  pools.set(store, prepared);
  const close = async () => {
    await store.destroy();
    // Kysely ends the pool only when it ran a statement of its own on it.
    if (!pool.ending) await pool.end();
  };
  return { store, pool, close };
}

/** Runs in the given transaction, or in one of its own. */
export function inTransaction<T>(
  store: Store | StoreTransaction,
  body: (trx: StoreTransaction) => Promise<T>,
): Promise<T> {
  return store.isTransaction ? body(store as StoreTransaction) : store.transaction().execute(body);
}
