import { Kysely, PostgresDialect, type PostgresPool, type PostgresPoolClient } from 'kysely';
import pg from 'pg';
import type { AuditLogTable } from './audit-log-table.ts';
import { poolOf, type Store } from './connection.ts';
import type { Schema } from './schema.ts';

/** Who acts, from where, and by what call: what the audit log says of a change besides the change. No secrets. */
export interface Attribution {
  readonly actor_kind: AuditLogTable['actor_kind'];
  readonly user_id?: string;
  readonly user_email?: string;
  readonly key_id?: number;
  readonly address?: string;
  readonly user_agent?: string;
  readonly request_id?: string;
  /** `branch.create` */
  readonly action: string;
  /** What the path of the request names. */
  readonly target?: Readonly<Record<string, unknown>>;
  /** The organisation that the request is about. */
  readonly organization_id?: string;
  /** Those of the caller: they are told of what is about none of them. */
  readonly organization_ids?: readonly string[];
}

/**
 * The same store, for one caller: whatever is changed through it has a row in `audit_log`, in the same transaction. It is
 * done where statements leave the process, and the store's triggers see what changes, so that no action can forget it. A
 * statement that changes something by itself is made a transaction. Nothing is to be closed.
 */
export function attributed(store: Store, attribution: Attribution): Store {
  return attributedWhere(store, () => attribution);
}

/** The same for a store that serves many callers: `attribution` says, each time a connection is taken, for whom; undefined: for nobody. */
export function attributedWhere(store: Store, attribution: () => Attribution | undefined): Store {
  return new Kysely<Schema>({ dialect: new PostgresDialect({ pool: attributedPool(poolOf(store), attribution) }) });
}

const CHANGES = /^\s*(insert|update|delete|merge)\b/i;
const BEGINS = /^(begin|start transaction(?!.* read only))\b/;
const WRITE_AND_COMMIT = 'select coppice.audit_write(); commit';

function attributedPool(pool: PostgresPool, attribution: () => Attribution | undefined): PostgresPool {
  return {
    connect: async () => {
      const acting = attribution();
      const client = await pool.connect();
      if (!acting) return client;
      return attributedClient(client, `set local coppice.audit = ${pg.escapeLiteral(JSON.stringify(acting))}`);
    },
    end: () => pool.end(),
  };
}

function attributedClient(client: PostgresPoolClient, setting: string): PostgresPoolClient {
  const send = client.query as (text: string, values: unknown[]) => Promise<unknown>;
  let begun = false;
  const query = async (text: string, values: unknown[]): Promise<unknown> => {
    if (BEGINS.test(text)) {
      begun = true;
      // One round trip with the statement that it goes with.
      return send(`${text}; ${setting}`, []);
    }
    if (begun && text === 'commit') return send(WRITE_AND_COMMIT, []);
    if (begun || !CHANGES.test(text)) return send(text, values);
    await send(`begin; ${setting}`, []);
    try {
      const result = await send(text, values);
      await send(WRITE_AND_COMMIT, []);
      return result;
    } catch (error) {
      // Where the connection broke there is nothing to undo, and the first error tells more.
      await send('rollback', []).catch(() => undefined);
      throw error;
    }
  };
  return { query: query as unknown as PostgresPoolClient['query'], release: () => client.release() };
}
