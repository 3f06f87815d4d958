import { type Kysely, sql } from 'kysely';
import type { Store, StoreTransaction } from './connection.ts';
import type { Schema } from './schema.ts';

/** What is of this process, this machine or this database, and is made anew elsewhere. */
const LEFT_OUT = [
  ...['migrations', 'workers', 'storage_pools', 'backup_requests', 'exports'],
  ...['idempotency_keys', 'events', 'event_log', 'webhook_deliveries'],
  // Who restores an old moment logs in anew.
  ...['sessions', 'verifications', 'used_codes', 'links'].map((name) => `coppice_auth.${name}`),
];
const ROWS_AT_ONCE = 2_000;

/** One moment of our own database. */
export interface StoreDump {
  /** The migrations that it was written by. */
  readonly migrations: readonly { readonly number: number; readonly checksum: string }[];
  /** Tables, those first that others refer to. */
  readonly tables: readonly string[];
  /** Where each sequence stands that was ever used. */
  readonly sequences: readonly { readonly name: string; readonly last_value: string }[];
}

/** Rows of one table as texts of JSON; numbers keep every digit. */
export type DumpedRows = (table: string) => AsyncIterable<readonly string[]>;

/**
 * Lends one moment of our own database, whatever is written meanwhile. Every table is in it that is not known to be of
 * this machine alone, so that a new one cannot be forgotten.
 */
export function atOneMoment<T>(
  store: Store,
  use: (moment: { readonly trx: StoreTransaction; readonly dump: StoreDump; readonly rows: DumpedRows }) => Promise<T>,
): Promise<T> {
  return store
    .transaction()
    .setIsolationLevel('repeatable read')
    .setAccessMode('read only')
    .execute(async (trx) => {
      await sql`set local statement_timeout = 0`.execute(trx);
      const { rows: migrations } = await sql<StoreDump['migrations'][number]>`
        select number, checksum from migrations order by number`.execute(trx);
      const { rows: sequences } = await sql<StoreDump['sequences'][number]>`
        select sequencename as name, last_value::text from pg_sequences
        where schemaname = 'coppice' and last_value is not null order by sequencename`.execute(trx);
      const dump = { migrations, sequences, tables: await tablesInOrder(trx) };
      return use({ trx, dump, rows: (table) => readRows(trx, table) });
    });
}

async function* readRows(trx: StoreTransaction, table: string): AsyncIterable<readonly string[]> {
  const cursor = sql.id(`dump_${table}`);
  await sql`declare ${cursor} no scroll cursor for
    select row_to_json(rows)::text as row from ${sql.table(table)} rows`.execute(trx);
  for (;;) {
    const { rows } = await sql<{ row: string }>`fetch ${sql.lit(ROWS_AT_ONCE)} from ${cursor}`.execute(trx);
    if (rows.length > 0) yield rows.map(({ row }) => row);
    if (rows.length < ROWS_AT_ONCE) break;
  }
  await sql`close ${cursor}`.execute(trx);
}

/** Throws where tables refer to each other in a ring: they could not be loaded one after the other. */
async function tablesInOrder(store: Kysely<Schema>): Promise<string[]> {
  // Names are those that the search path leads to, as `regclass` shows them; those of logins have their schema before them.
  const { rows } = await sql<{ name: string; needs: string[] }>`
    select name, array(
      select distinct confrelid::regclass::text from pg_constraint
      where conrelid = tables.oid and contype = 'f' and confrelid <> tables.oid
    ) as needs
    from (
      select oid, oid::regclass::text as name from pg_class
      where relnamespace = any(array['coppice', 'coppice_auth']::regnamespace[]) and relkind = 'r'
    ) as tables
    where name <> all(${LEFT_OUT}::text[])
    order by name`.execute(store);
  const ordered: string[] = [];
  const left = new Map(rows.map(({ name, needs }) => [name, needs]));
  while (left.size > 0) {
    const free = [...left].filter(([, needs]) => needs.every((need) => ordered.includes(need)));
    if (free.length === 0) throw new Error(`tables refer to each other in a ring: ${[...left.keys()].join(', ')}`);
    for (const [name] of free) {
      ordered.push(name);
      left.delete(name);
    }
  }
  return ordered;
}

/**
 * Fills our own database, which was just migrated to where the dump was, with what is in it. All or nothing.
 * Rows of a table become rows in one statement, since some refer to others of the same table.
 */
export async function loadDump(store: Store, dump: StoreDump, rows: DumpedRows): Promise<void> {
  await store.transaction().execute(async (trx) => {
    await sql`set local statement_timeout = 0`.execute(trx);
    // Nothing changes thereby: the log of changes is among the rows.
    await sql`set local coppice.audit = 'off'`.execute(trx);
    for (const table of dump.tables) {
      const name = sql.table(table);
      const staged = sql.id(`staged_${table}`);
      await sql`create temporary table ${staged} (content json) on commit drop`.execute(trx);
      for await (const part of rows(table)) {
        await sql`insert into ${staged} select value from json_array_elements(${`[${part.join(',')}]`}::json)`.execute(
          trx,
        );
      }
      // What migrations put there is in the dump, too.
      await sql`delete from ${name}`.execute(trx);
      const columns = await writtenColumns(trx, table);
      await sql`insert into ${name} (${sql.join(columns.map((column) => sql.id(column)))}) overriding system value
        select ${sql.join(columns.map((column) => sql.id('filled', column)))}
        from ${staged} as staged, json_populate_record(null::${name}, staged.content) as filled`.execute(trx);
    }
    // Nothing of this has happened here. Dumps of older versions know no events.
    await sql`do $$ begin if to_regclass('events') is not null then delete from events; end if; end $$`.execute(trx);
    for (const { name, last_value } of dump.sequences) {
      await sql`select setval(${`coppice.${name}`}::regclass, ${last_value}::bigint)`.execute(trx);
    }
  });
}

/** The columns of a table but for those that are reckoned from others. */
async function writtenColumns(trx: StoreTransaction, table: string): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select attname as name from pg_attribute
    where attrelid = ${table}::regclass and attnum > 0 and not attisdropped and attgenerated = ''
    order by attnum`.execute(trx);
  return rows.map(({ name }) => name);
}

/** What was restored, by the drivers of this machine. */
export interface RestoredVolumes {
  readonly driver: string;
  readonly timelines: readonly string[];
  readonly snapshots: readonly string[];
}

/**
 * Makes what was observed elsewhere what is true here: nothing runs, volumes are those that were restored, and what had
 * none is gone. Roles and databases are brought to each branch again, since they may be newer than its volume.
 */
export async function settleRestored(store: Store, { driver, timelines, snapshots }: RestoredVolumes): Promise<void> {
  const volumeOf = (id: 'timelines.id' | 'timeline_snapshots.id') =>
    sql`jsonb_build_object('driver', ${driver}::text, 'id', ${sql.ref(id)}::text)`;
  await store.transaction().execute(async (trx) => {
    await sql`set local statement_timeout = 0`.execute(trx);
    await sql`update endpoints set
      observed_state = case observed_state when 'none' then 'none' else 'stopped' end,
      suspended_at = coalesce(suspended_at, case observed_state when 'none' then null else now() end),
      compute = null, serves_timeline_id = null, spec_hash = null, current_cu = null, crashes = 0,
      replica_volume = null, replica_timeline_id = null, replica_lag_bytes = null, replica_lag_seconds = null`.execute(
      trx,
    );
    await sql`update timelines set measured_at = null,
      volume = case when id = any(${timelines}::uuid[]) then ${volumeOf('timelines.id')} end`.execute(trx);
    await sql`update timeline_snapshots set measured_at = null, volume = ${volumeOf('timeline_snapshots.id')}
      where id = any(${snapshots}::uuid[])`.execute(trx);
    await sql`update timeline_snapshots set volume = null, deleted_at = coalesce(deleted_at, now()), purged_at = coalesce(purged_at, now())
      where id <> all(${snapshots}::uuid[])`.execute(trx);
    await sql`update calls set held_by = null where held_by is not null`.execute(trx);
    await sql`update branches set config_generation = config_generation + 1 where deleted_at is null or deletion_method is not null`.execute(
      trx,
    );
  });
}
