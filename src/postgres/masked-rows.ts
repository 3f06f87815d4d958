import type { Duplex } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import pg from 'pg';
import { readCopyRow, writeCopyRow } from '../domain/masking/copy-text.ts';
import { MaskingProblem } from '../domain/masking/masking-call.ts';
import { type MaskingRule, ruleName } from '../domain/masking/masking-rule.ts';
import { type TableMask, tableMask } from '../domain/masking/table-mask.ts';
import { PLATFORM_ROLE, SCHEMA_READER } from './access.ts';
import type { RowsToCopy } from './copy-schemas.ts';
import { withConnectionsAllowed } from './database-access.ts';
import type { SessionOf } from './restore-schema.ts';
import { openSession, type Session } from './session.ts';
import {
  copySequences,
  copyTableRows,
  findTablesBelow,
  qualified,
  type RowsChange,
  type RowsTable,
  readMaterializedViews,
  readRowsTables,
  SourceUnreadable,
} from './table-rows.ts';

/** A rule that the database cannot be masked by, or rows that the new server does not take. For the customer. */
export class MaskingRefused extends Error {
  override name = 'MaskingRefused';
}

export interface MaskedRows {
  readonly rules: readonly MaskingRule[];
  /** The secret of the branch. */
  readonly key: Buffer;
  /** Those of the source. */
  readonly databases: readonly string[];
  /** Owners of what is copied. */
  readonly roles: readonly string[];
  readonly signal: AbortSignal;
}

const refused = (rule: MaskingRule, problem: string) => new MaskingRefused(`rule for ${ruleName(rule)}: ${problem}`);

/**
 * Fills new databases with the rows of others, masked on the way: the new server never sees what a mask hides, and what a
 * customer's schema brings to run (checks, generated columns, functions of indexes, triggers) runs there alone. The source
 * is only read, by a role that may do nothing else, in one transaction that writes nothing.
 *
 * @param from a server with `letReaderSeeRows`
 * @throws MaskingRefused out of each of its steps
 */
export function maskedRows(from: () => Promise<Duplex>, wanted: MaskedRows): RowsToCopy {
  const populated = new Map<string, ReadonlySet<string>>();
  return {
    check: () => checkRules(from, wanted),
    fill: async (database, sessionOf) => {
      await using source = await openSource(from, database);
      const { platform, reader } = source;
      const views = (await readMaterializedViews(platform)).filter((view) => view.populated);
      populated.set(database, new Set(views.map(qualified)));
      const { tables, masks } = await masksOf(source, database, wanted);
      await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
      for (const table of tables) await fillTable(reader, sessionOf, table, masks.get(table.oid), wanted.signal);
      await copySequences(platform, await sessionOf(PLATFORM_ROLE));
    },
    finish: async (database, open) => {
      await using platform = await open(PLATFORM_ROLE);
      const views = (await readMaterializedViews(platform)).filter((view) =>
        populated.get(database)?.has(qualified(view)),
      );
      for (const view of views) {
        wanted.signal.throwIfAborted();
        await using session = await open(view.owner);
        await session
          .query(`REFRESH MATERIALIZED VIEW ${qualified(view)}`)
          .catch(refuseFor(`materialized view ${qualified(view)}`));
      }
      // What the planner knows of the rows is of the masked ones.
      await platform.query('ANALYZE');
    },
  };
}

/** Two sessions in a database of the source: one that may do everything, for the catalogs, and one that only reads, for rows. */
interface Source extends AsyncDisposable {
  readonly platform: Session;
  readonly reader: Session;
}

async function openSource(from: () => Promise<Duplex>, database: string): Promise<Source> {
  await using opened = new AsyncDisposableStack();
  const platform = opened.use(await openSession(from, { database }));
  const reader = opened.use(await openSession(from, { database, user: SCHEMA_READER, statement_timeout_ms: 0 }));
  await reader.query('SET idle_in_transaction_session_timeout = 0');
  const both = opened.move();
  return { platform, reader, [Symbol.asyncDispose]: () => both.disposeAsync() };
}

async function checkRules(from: () => Promise<Duplex>, wanted: MaskedRows): Promise<void> {
  const lost = wanted.rules.find(({ database_name }) => !wanted.databases.includes(database_name));
  if (lost) throw refused(lost, 'there is no such database');
  await using postgres = await openSession(from, { database: 'postgres' });
  for (const database of new Set(wanted.rules.map(({ database_name }) => database_name))) {
    await withConnectionsAllowed(postgres, database, async () => {
      await using source = await openSource(from, database);
      await masksOf(source, database, wanted);
    });
  }
}

/** For a server that nobody else reaches: the role that reads schemas is shown all rows, whatever their policies. */
export async function letReaderSeeRows(dial: () => Promise<Duplex>, may: boolean): Promise<void> {
  await using postgres = await openSession(dial, { database: 'postgres' });
  const { rows } = await postgres.query('SELECT FROM pg_roles WHERE rolname = $1', [SCHEMA_READER]);
  if (rows.length > 0) await postgres.query(`ALTER ROLE ${SCHEMA_READER} ${may ? 'BYPASSRLS' : 'NOBYPASSRLS'}`);
}

async function fillTable(
  reader: Session,
  sessionOf: SessionOf,
  table: RowsTable,
  mask: TableMask | undefined,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted();
  const change = mask && changeRows(mask);
  await copyTableRows(reader, await sessionOf(table.owner), table, {
    unread: mask?.unread ?? new Set(),
    change,
    signal,
  }).catch(refuseFor(`table ${qualified(table)}`));
}

/** What Postgres says of a row is shown without the row. */
function refuseFor(what: string) {
  return (error: Error): never => {
    const shown = [pg.DatabaseError, MaskingProblem, SourceUnreadable].some((kind) => error instanceof kind);
    if (!shown) throw error;
    throw new MaskingRefused(`${what}: ${error.message}`, { cause: error });
  };
}

function changeRows({ mask }: TableMask): RowsChange {
  return async function* change(chunks) {
    const decoder = new StringDecoder('utf8');
    let rest = '';
    for await (const chunk of chunks) {
      const text = rest + decoder.write(chunk);
      const end = text.lastIndexOf('\n');
      rest = text.slice(end + 1);
      if (end >= 0) yield maskLines(text.slice(0, end));
    }
    if (rest !== '') throw new Error('the rows of a table ended within a row');
  };

  function maskLines(lines: string): string {
    let masked = '';
    for (const line of lines.split('\n')) masked += writeCopyRow(mask(readCopyRow(line)));
    return masked;
  }
}

/** The tables whose rows are copied, and their masks; a rule for a table holds for its partitions and for what inherits from it. */
async function masksOf(
  { platform, reader }: Source,
  database: string,
  { roles, rules, key }: MaskedRows,
): Promise<{ tables: RowsTable[]; masks: ReadonlyMap<number, TableMask> }> {
  const tables = (await readRowsTables(platform)).filter(({ owner }) => roles.includes(owner));
  const byOid = new Map(tables.map((table) => [table.oid, table]));
  const rulesOf = new Map<RowsTable, MaskingRule[]>();
  for (const rule of rules.filter(({ database_name }) => database_name === database)) {
    const below = await findTablesBelow(platform, rule.schema_name, rule.table_name);
    if (below.length === 0) throw refused(rule, 'there is no such table');
    for (const table of below.flatMap((oid) => byOid.get(oid) ?? [])) {
      await checkRule(reader, table, rule, key);
      const others = rulesOf.get(table) ?? [];
      if (others.some(({ column_name }) => column_name === rule.column_name)) {
        throw refused(rule, `another rule masks the column in ${qualified(table)} already`);
      }
      rulesOf.set(table, [...others, rule]);
    }
  }
  return {
    tables,
    masks: new Map([...rulesOf].map(([table, own]) => [table.oid, tableMask(table.columns, own, key)])),
  };
}

async function checkRule(reader: Session, table: RowsTable, rule: MaskingRule, key: Buffer): Promise<void> {
  if (table.generated.includes(rule.column_name)) {
    throw refused(rule, 'the column is reckoned from other columns; mask those');
  }
  try {
    tableMask(table.columns, [rule], key);
  } catch (error) {
    throw error instanceof MaskingProblem ? refused(rule, error.message) : error;
  }
  const column = table.columns.find(({ name }) => name === rule.column_name)!;
  if (rule.masking_value === undefined || !column.plain_type) return;
  // The type is written by Postgres itself, quoted where it has to be.
  await reader.query(`SELECT $1::${column.declared}`, [rule.masking_value]).catch((error) => {
    throw refused(rule, `the value is not of the type ${column.declared}: ${error.message}`);
  });
}
