import { parseFieldLetters } from '../../wire/backend-messages.ts';
import {
  type Field,
  parseCommandTag,
  parseRowDescription,
  statementMessages,
  type TextStatement,
} from '../../wire/extended-query.ts';
import { ProtocolError } from '../../wire/message.ts';
import type { ServerLease } from '../pool/contract.ts';
import { refusals } from '../refusal.ts';
import { type JsonPieces, type ResultWriter, resultWriter } from './result-json.ts';
import type { SqlOptions, SqlRequest } from './sql-request.ts';

/** In no transaction, in one, in one that has failed. */
type TransactionStatus = 'I' | 'T' | 'E';

export interface SqlOutcome {
  /** What the server said of the first statement that failed, by the letters of its fields. */
  readonly failure: ReadonlyMap<string, string> | undefined;
  /** `gone`: the connection is of no more use. `unheard`: so it is, and the server had closed it before it read anything. */
  readonly status: TransactionStatus | 'gone' | 'unheard';
}

interface RunOptions {
  readonly pieces: JsonPieces;
  /** Of one row. */
  readonly limit_bytes: number;
  /** What the token of whoever asks says, as JSON: the statements can read it. */
  readonly claims: string | undefined;
}

const statement = (sql: string): TextStatement => ({ sql, parameters: [] });

/** Shows statements of the same transaction who asks, by the setting that PostgREST has made common. It ends with them. */
const claimsStatement = (claims: string): TextStatement => ({
  sql: "SELECT pg_catalog.set_config('request.jwt.claims', $1, true)",
  parameters: [claims],
});

/**
 * Runs what a request asks for and writes the results to `pieces` as they come. A batch is one transaction, which is rolled
 * back by its first failure. Rejects when the answer is incomplete: what the server does then is not known.
 *
 * @param server a connection on which nothing is under way
 */
export async function runSql(
  server: ServerLease,
  { batch, statements }: SqlRequest,
  options: SqlOptions,
  run: RunOptions,
): Promise<SqlOutcome> {
  const writers = statements.map(({ array_mode }) =>
    resultWriter(run.pieces, { raw_text: options.raw_text, array_mode }),
  );
  const ahead = run.claims === undefined ? [] : [claimsStatement(run.claims)];
  const silent = ahead.map(() => SILENT);
  // What goes in one go is one transaction, unless a statement ends it.
  if (!batch) return runStatements(server, [...ahead, ...statements], [...silent, ...writers], run);
  run.pieces.add('{"results":[');
  // In one go: the server skips everything behind what fails, this beginning included.
  const outcome = await runStatements(
    server,
    [statement(options.begin), ...ahead, ...statements],
    [SILENT, ...silent, ...writers],
    run,
  );
  run.pieces.add(']}');
  if (outcome.status === 'gone' || outcome.status === 'unheard') return outcome;
  // An answer that is too large is found out before anything is kept.
  run.pieces.flush();
  const end = statement(outcome.failure ? 'ROLLBACK' : 'COMMIT');
  const ended = await runStatements(server, [end], [SILENT], run);
  return { failure: outcome.failure ?? ended.failure, status: ended.status };
}

const SILENT: ResultWriter = { fields: () => undefined, row: () => undefined, end: () => undefined };

/** Severities of errors that end the session. */
const ENDING = new Set(['FATAL', 'PANIC']);

const type = (letter: string): number => letter.charCodeAt(0);
const TYPES = {
  rowDescription: type('T'),
  dataRow: type('D'),
  commandComplete: type('C'),
  emptyQuery: type('I'),
  readyForQuery: type('Z'),
  error: type('E'),
  copyIn: type('G'),
  copyOut: type('H'),
  copyBoth: type('W'),
};

/** What a server says to the first statement, whatever comes of it: ParseComplete, or an error that does not end it. */
const ANSWERS = new Set([type('1'), TYPES.readyForQuery]);
/** admin_shutdown: the compute goes to sleep, or is started anew. */
const SHUT_DOWN = '57P01';

/** What cannot be read is the server's doing. */
function columnsOf(body: Buffer): Field[] {
  try {
    return parseRowDescription(body);
  } catch (cause) {
    throw refusals.answerUnreadable(cause);
  }
}

async function runStatements(
  server: ServerLease,
  statements: readonly TextStatement[],
  writers: readonly ResultWriter[],
  { pieces, limit_bytes }: RunOptions,
): Promise<SqlOutcome> {
  let failure: ReadonlyMap<string, string> | undefined;
  let at = 0;
  let heard = false;
  const ended = (command: string, rows: number | null) => {
    const writer = writers[at++];
    if (writer === SILENT) return;
    writer!.end(command, rows);
    if (at < writers.length) pieces.add(',');
  };
  const onMessage = (type: number, body: Buffer) => {
    switch (type) {
      case TYPES.dataRow:
        return writers[at]!.row(body);
      case TYPES.rowDescription:
        return writers[at]!.fields(columnsOf(body));
      case TYPES.commandComplete: {
        const { command, rows } = parseCommandTag(body);
        return ended(command, rows);
      }
      case TYPES.emptyQuery:
        return ended('', null);
      case TYPES.error:
        failure ??= parseFieldLetters(body);
        return;
      case TYPES.copyIn:
      case TYPES.copyOut:
      case TYPES.copyBoth:
        throw refusals.copyOverHttp();
    }
  };
  server.send(statementMessages(statements));
  try {
    for (;;) {
      const { type, body } = await server.receive(limit_bytes);
      if (type === TYPES.readyForQuery) return { failure, status: body.toString('latin1') as TransactionStatus };
      onMessage(type, body);
      heard ||= ANSWERS.has(type);
    }
  } catch (error) {
    // What it said before it closed is what happened. It answers in order: without a first answer nothing has been done.
    if (failure && ENDING.has(failure.get('V') ?? '')) {
      return { failure, status: !heard && failure.get('C') === SHUT_DOWN ? 'unheard' : 'gone' };
    }
    if (error instanceof ProtocolError) throw refusals.responseTooLarge(limit_bytes);
    throw error;
  }
}
