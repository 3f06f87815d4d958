import { sql } from 'kysely';
import type { Store, StoreTransaction } from './connection.ts';

/**
 * A transaction in the place of a store: what would begin a transaction becomes a part of this one. A part that fails is
 * undone, and the rest stays.
 */
export function asStore(trx: StoreTransaction): Store {
  let begun = 0;
  const part = async <T>(body: (trx: StoreTransaction) => Promise<T>): Promise<T> => {
    begun += 1;
    const savepoint = sql.id(`part_${begun}`);
    await sql`savepoint ${savepoint}`.execute(trx);
    try {
      const result = await body(trx);
      await sql`release savepoint ${savepoint}`.execute(trx);
      return result;
    } catch (error) {
      await sql`rollback to savepoint ${savepoint}`.execute(trx);
      throw error;
    }
  };
  return new Proxy<Store>(trx, {
    get: (target, name) => {
      if (name === 'transaction') return () => ({ execute: part });
      // Kysely keeps its state in private fields, which only the thing itself has.
      const value = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
