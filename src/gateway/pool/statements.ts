import { LIMITS } from '../../domain/limits.ts';
import { type Judgement, judgeText } from './judge-text.ts';

/** A statement that clients of a pool have prepared: the same text with the same types is one statement for all. */
export interface PooledStatement {
  /** Its name on server connections. */
  readonly name: string;
  /** The text and the types of its parameters, as they came in a Parse. */
  readonly rest: Buffer;
  readonly judgement: Judgement;
}

const PREFIX = 'coppice_';
/** No server connection has a statement of this name. */
export const ABSENT_NAME = `${PREFIX}absent`;

/** A name that a client gave and that nobody has prepared through the pool, as the server may see it. */
export const foreignName = (name: string): string => (name.startsWith(PREFIX) ? ABSENT_NAME : name);

interface Entry {
  readonly statement: PooledStatement;
  holders: number;
}

/** The statements of a pool's clients. Bounded by the bytes of all texts. */
export class StatementRegistry {
  readonly #entries = new Map<string, Entry>();
  #number = 0;
  #bytes = 0;

  /** Undefined when the pool holds too much text already. What is taken is let go of by `release`. */
  take(rest: Buffer): PooledStatement | undefined {
    const key = rest.toString('latin1');
    const known = this.#entries.get(key);
    if (known) {
      known.holders++;
      return known.statement;
    }
    if (this.#bytes + rest.length > LIMITS.pool_statement_bytes_per_pool) return undefined;
    this.#bytes += rest.length;
    const statement = { name: `${PREFIX}${++this.#number}`, rest: Buffer.from(rest), judgement: judgeParse(rest) };
    this.#entries.set(key, { statement, holders: 1 });
    return statement;
  }

  release({ rest }: PooledStatement): void {
    const key = rest.toString('latin1');
    const entry = this.#entries.get(key);
    if (!entry || --entry.holders > 0) return;
    this.#entries.delete(key);
    this.#bytes -= rest.length;
  }
}

/** Judges what follows the name in a Parse. */
export function judgeParse(rest: Buffer): Judgement {
  const end = rest.indexOf(0);
  return judgeText(rest.toString('latin1', 0, Math.min(end < 0 ? rest.length : end, LIMITS.pool_judged_bytes + 1)));
}

/** What is prepared on one server connection, the longest unused first. */
export class ServerStatements {
  readonly #names = new Map<PooledStatement, string>();
  /** Grows when a client may have dropped everything, or nothing: names of before are not used again. */
  #generation = 0;

  /** The name of a prepared statement, which now is the last used; undefined when it is not prepared. */
  use(statement: PooledStatement): string | undefined {
    const name = this.#names.get(statement);
    if (name === undefined) return undefined;
    this.#names.delete(statement);
    this.#names.set(statement, name);
    return name;
  }

  /** Counts a statement as prepared; returns its name, and what is to be closed to make room. */
  add(statement: PooledStatement): { name: string; evicted: string | undefined } {
    const name = this.#generation === 0 ? statement.name : `${statement.name}_${this.#generation}`;
    let evicted: string | undefined;
    if (this.#names.size >= LIMITS.pool_statements_per_server) {
      const [oldest, oldest_name] = this.#names.entries().next().value!;
      this.#names.delete(oldest);
      evicted = oldest_name;
    }
    this.#names.set(statement, name);
    return { name, evicted };
  }

  remove(statement: PooledStatement): void {
    this.#names.delete(statement);
  }

  forget(): void {
    this.#names.clear();
    this.#generation++;
  }
}
