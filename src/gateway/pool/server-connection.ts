import { LIMITS } from '../../domain/limits.ts';
import { type BackendKey, type ErrorFields, parseErrorFields } from '../../wire/backend-messages.ts';
import { FrameWalker } from '../../wire/frame-walker.ts';
import { query } from '../../wire/frontend-messages.ts';
import { ProtocolError } from '../../wire/message.ts';
import { closeStatement, parseStatement } from '../../wire/statement-messages.ts';
import type { ComputeSession } from '../compute-login.ts';
import type { ConnectTimes } from '../connect-compute.ts';
import { type BytePort, openPort } from './byte-port.ts';
import { UNREAD } from './judge-text.ts';
import { AWAITED, type Awaited, Outstanding } from './outstanding.ts';
import { TAINT, type Taint } from './session-state.ts';
import { type PooledStatement, ServerStatements } from './statements.ts';
import { type Parameters, parseParameterStatus, setParameters } from './tracked-parameters.ts';

/** Who has a server connection at the moment. */
export interface Borrower {
  /** Messages for the borrower, perhaps in parts; false as for `BytePort.write`. */
  onServerBytes(bytes: Buffer): boolean;
  /** Everything sent is answered, and no transaction is open. May release the connection. */
  onServerIdle(): void;
  /** What was sent last is on its way. */
  onServerWritable(): void;
  /** The connection is of no use any more. */
  onServerGone(end: ServerEnd): void;
  /** A parameter that the server reports has changed. */
  onParameter(name: string, value: string): void;
  /** The server has dropped all prepared statements. */
  onDeallocatedAll(): void;
}

export interface ServerEnd {
  /** The server's last words, which the borrower was passed. */
  readonly said: ErrorFields | undefined;
  /** It ended inside a message. */
  readonly cut: boolean;
}

/** What an own query brought: the first column of its rows, as text, or its error. */
export interface OwnAnswer {
  readonly values: readonly (string | undefined)[];
  readonly error: ErrorFields | undefined;
}

const code = (character: string) => character.charCodeAt(0);
const READY = code('Z');
const PARSE_COMPLETE = code('1');
const CLOSE_COMPLETE = code('3');
const ERROR = code('E');
const COMMAND_COMPLETE = code('C');
const COPY_IN = code('G');
const PARAMETER = code('S');
const DATA_ROW = code('D');
const IDLE = code('I');
const HEADER_BYTES = 5;
const DEALLOCATED = ['DEALLOCATE ALL', 'DISCARD ALL'];
const DEALLOCATED_BYTES = new Set(DEALLOCATED.map((tag) => HEADER_BYTES + tag.length + 1));

const READ_HERE = new Uint8Array(256);
for (const type of [READY, PARSE_COMPLETE, CLOSE_COMPLETE, ERROR, COMMAND_COMPLETE, COPY_IN, PARAMETER]) {
  READ_HERE[type] = 1;
}

/** What becomes of a message from the server. */
type Passage = 'pass' | 'drop' | Buffer;

const PARSE_COMPLETE_MESSAGE = Buffer.from([PARSE_COMPLETE, 0, 0, 0, 4]);

/**
 * A logged-in server connection of a pool, which knows what it has still to answer, what is prepared on it, and what
 * its session's reported parameters are.
 */
export class ServerConnection {
  readonly key: BackendKey | undefined;
  readonly parameters: Parameters = new Map();
  readonly statements = new ServerStatements();
  borrower: Borrower | undefined;
  /** What its borrower may have left in the session. */
  taint: Taint = TAINT.none;
  /** Its borrower may have changed the database's code. */
  changed_code = false;
  /** Whose unnamed statement it has; undefined when it has none. */
  unnamed: object | undefined;
  /** Cancels on their way; until they are done nobody else gets the connection. */
  readonly cancels = new Set<Promise<void>>();
  idle_since = 0;
  /** How long it took to be opened, until the first who got it has given it back. */
  opened_in: ConnectTimes | undefined;
  closed = false;
  /** Called once when it ends while nobody has it. */
  onGone: () => void = () => undefined;
  readonly #walker = new FrameWalker();
  readonly #outstanding = new Outstanding();
  #port: BytePort | undefined;
  #in_transaction = false;
  /** A message of the extended protocol was sent, and no Sync after it. */
  #batch_open = false;
  /** Something was bound or executed since the last Sync. */
  #batch_runs = false;
  /** The server reads on to the next Sync, which was not sent yet. */
  #skipping = false;
  #copying_in = false;
  /** Nothing is read of it until its borrower has room again. */
  #held_up = false;
  #said: ErrorFields | undefined;
  #own: { values: (string | undefined)[]; error: ErrorFields | undefined; done(answer: OwnAnswer): void } | undefined;

  private constructor(key: BackendKey | undefined) {
    this.key = key;
  }

  static async open({ stream, key, greeting, rest }: ComputeSession, raw: boolean): Promise<ServerConnection> {
    const server = new ServerConnection(key);
    for (const message of greeting) {
      if (message[0] !== PARAMETER) continue;
      server.parameters.set(...parseParameterStatus({ body: message.subarray(HEADER_BYTES) }));
    }
    // The login ends with ReadyForQuery.
    server.#outstanding.push(AWAITED.our_sync);
    server.#onBytes(rest);
    server.#port = await openPort(
      stream,
      { raw, shares: false },
      {
        onBytes: (bytes) => server.#onBytes(bytes),
        onEnd: () => server.#onEnd(),
        onClosed: () => server.#onEnd(),
        onWritable: () => server.borrower?.onServerWritable(),
      },
    );
    // By what it had said already.
    if (server.closed) stream.destroy();
    server.#port.start(Buffer.alloc(0));
    return server;
  }

  /** Everything sent is answered, and no transaction is open. */
  get idle(): boolean {
    return this.#outstanding.empty && !this.#in_transaction && !this.#batch_open;
  }

  /** Nothing is on the way to the borrower but whole messages. */
  get between(): boolean {
    return this.#walker.between;
  }

  /** The server is at work for its borrower. */
  get busy(): boolean {
    return !this.#outstanding.empty || this.#batch_open;
  }

  /** It has said that it ends the session, and will answer nothing any more. */
  get leaves(): boolean {
    return this.#said?.severity === 'FATAL' || this.#said?.severity === 'PANIC';
  }

  write(bytes: Buffer): boolean {
    return this.closed || this.#port!.write(bytes);
  }

  resume(): void {
    this.#held_up = false;
    this.#port?.resume();
  }

  /** Takes it from its borrower: whoever comes next must be heard, though that one had no room. */
  reclaim(): void {
    this.borrower = undefined;
    if (this.#held_up) this.resume();
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.#port?.stream.destroy();
    this.#failOwn();
  }

  /** Keeps the connection from being handed on until a cancel that was sent to it is done. */
  trackCancel(cancel: Promise<void>): Promise<void> {
    this.cancels.add(cancel);
    return cancel.finally(() => this.cancels.delete(cancel));
  }

  /**
   * Counts a Query or FunctionCall that is about to be sent. Throws a ProtocolError inside of a batch that may still fail,
   * since the server then ignores it. What only prepared and is answered cannot: asyncpg does that, and sends no Sync.
   */
  expectQuery(entry: Awaited = AWAITED.query): void {
    const may_fail = this.#batch_runs || this.#skipping || !this.#outstanding.empty;
    if (this.#batch_open && may_fail) {
      throw new ProtocolError('a simple query before the Sync of an extended one is not possible here', '0A000');
    }
    this.#batch_open = false;
    this.unnamed = undefined;
    this.#outstanding.push(entry);
  }

  /** Counts a Sync that is about to be sent. */
  expectSync(): void {
    // In the middle of a COPY the server ignores it.
    if (this.#copying_in) return;
    this.#skipping = false;
    this.#batch_open = false;
    this.#batch_runs = false;
    this.#outstanding.push(AWAITED.sync);
  }

  /** Whether the server may be in the middle of a COPY that it was sent. */
  get mayCopy(): boolean {
    return this.#copying_in || this.busy;
  }

  /** Counts a message of the extended protocol that is about to be sent, and its answer where that matters. */
  expectInBatch(entry?: Awaited): void {
    if (!this.#copying_in) this.#batch_open = true;
    if (!entry) return;
    if (!this.#skipping) this.#outstanding.push(entry);
    else if (entry.kind === 'parse' || entry.kind === 'close') entry.onSkipped?.();
  }

  /** Counts a Bind or an Execute that is about to be sent. */
  expectRun(): void {
    if (!this.#copying_in) this.#batch_runs = true;
    this.expectInBatch();
  }

  expectCopyEnd(): void {
    if (this.#copying_in) this.#copying_in = false;
    else this.#outstanding.push(AWAITED.copy_end);
  }

  /** Notes what a text that is about to be sent may do. */
  note({ taint, deallocates_all, changes_code } = UNREAD): void {
    if (taint > this.taint) this.taint = taint;
    if (changes_code) this.changed_code = true;
    if (deallocates_all) this.statements.forget();
  }

  /** The name of a statement on this connection. Where it must be prepared first, the messages for that go to `before`. */
  prepare(statement: PooledStatement, before: Buffer[]): string {
    const known = this.statements.use(statement);
    if (known !== undefined) return known;
    const name = this.addStatement(statement, before);
    before.push(parseStatement(name, statement.rest));
    this.expectInBatch({ kind: 'parse', ours: true, onSkipped: () => this.statements.remove(statement) });
    return name;
  }

  /** Counts a statement as prepared, which somebody is about to do under the name returned. */
  addStatement(statement: PooledStatement, before: Buffer[]): string {
    const { name, evicted } = this.statements.add(statement);
    if (evicted !== undefined) {
      before.push(closeStatement(evicted));
      this.expectInBatch(AWAITED.our_close);
    }
    return name;
  }

  /** What gives the session a client's parameters, to be sent before anything of the client's; undefined when it has them. */
  adapt(wanted: Parameters): Buffer | undefined {
    const sql = setParameters(wanted, this.parameters);
    if (sql === undefined) return undefined;
    this.expectQuery(AWAITED.our_query);
    return query(sql);
  }

  /** Runs a query of our own. Resolves when it is answered, when it failed, and when the connection ends before. */
  ask(sql: string): Promise<OwnAnswer> {
    return new Promise((done) => {
      this.#own = { values: [], error: undefined, done };
      if (this.closed) return this.#failOwn();
      this.expectQuery(AWAITED.our_query);
      this.write(query(sql));
    });
  }

  #onBytes(chunk: Buffer): boolean {
    const walker = this.#walker;
    if (this.closed || !walker.feed(chunk)) return true;
    const kept: Buffer[] = [];
    let from = 0;
    let whole = true;
    try {
      while (walker.next()) {
        if (READ_HERE[walker.type] === 0 && this.#outstanding.head !== AWAITED.our_query) continue;
        if (!walker.complete && !this.#mustPassInParts()) {
          walker.hold(walker.current_bytes);
          break;
        }
        const passage = this.#read();
        if (passage === 'pass') continue;
        whole = false;
        if (walker.offset > from) kept.push(walker.bytes.subarray(from, walker.offset));
        if (passage !== 'drop') kept.push(passage);
        from = walker.end;
      }
    } catch {
      // Where messages end cannot be told any more.
      this.#onEnd();
      return true;
    }
    if (whole)
      return this.#pass(walker.limit === walker.bytes.length ? walker.bytes : walker.bytes.subarray(0, walker.limit));
    if (walker.limit > from) kept.push(walker.bytes.subarray(from, walker.limit));
    return this.#pass(kept.length === 1 ? kept[0]! : Buffer.concat(kept));
  }

  /** An error may be long; a client gets it whole, and here its start is enough. */
  #mustPassInParts(): boolean {
    if (this.#walker.current_bytes <= LIMITS.pool_read_bytes) return false;
    if (this.#outstanding.head === AWAITED.our_query) throw new ProtocolError('the answer is too long');
    return true;
  }

  #pass(bytes: Buffer): boolean {
    const { borrower } = this;
    const room = bytes.length === 0 || !borrower || borrower.onServerBytes(bytes);
    if (this.#own && this.#outstanding.empty) this.#finishOwn();
    else if (borrower && borrower === this.borrower && this.idle) borrower.onServerIdle();
    // Its end may take a while, and until then it must not be lent.
    if (!this.borrower && this.leaves) this.#onEnd();
    this.#held_up = !room;
    // Whoever comes next must be heard; what is not written yet keeps its memory.
    if (!room && this.borrower !== borrower) queueMicrotask(() => this.resume());
    return room;
  }

  /** An own query whose connection ends is answered by that. */
  #failOwn(): void {
    if (!this.#own) return;
    const ended = { severity: 'FATAL', code: '08006', message: 'the connection to the compute ended' };
    this.#own.error = this.#said ?? ended;
    this.#finishOwn();
  }

  #finishOwn(): void {
    const { values, error, done } = this.#own!;
    this.#own = undefined;
    done({ values, error });
  }

  /** Takes in the current message. */
  #read(): Passage {
    const { type, bytes, offset, current_bytes } = this.#walker;
    const ours = this.#outstanding.head === AWAITED.our_query;
    switch (type) {
      case READY: {
        const answered = this.#outstanding.shiftToReady();
        if (!answered) throw new ProtocolError('ReadyForQuery that nobody waits for');
        this.#in_transaction = bytes[offset + HEADER_BYTES] !== IDLE;
        this.#copying_in = false;
        if (!this.#batch_open) this.#outstanding.dropStrayCopyEnds();
        return (answered as { ours?: boolean }).ours ? 'drop' : 'pass';
      }
      case PARSE_COMPLETE:
        return this.#onParsed();
      case CLOSE_COMPLETE:
        return this.#onClosed();
      case ERROR:
        this.#onError(ours);
        break;
      case COPY_IN:
        this.#onCopyIn();
        break;
      case PARAMETER: {
        const [name, value] = parseParameterStatus({ body: bytes.subarray(offset + HEADER_BYTES, this.#walker.end) });
        this.parameters.set(name, value);
        if (!ours) this.borrower?.onParameter(name, value);
        break;
      }
      case COMMAND_COMPLETE:
        if (DEALLOCATED_BYTES.has(current_bytes))
          this.#onTag(bytes.toString('latin1', offset + HEADER_BYTES, this.#walker.end - 1));
        break;
      case DATA_ROW:
        if (ours) this.#own?.values.push(firstColumn(bytes, offset + HEADER_BYTES));
        break;
    }
    return ours ? 'drop' : 'pass';
  }

  #onParsed(): Passage {
    const answered = this.#outstanding.shift();
    if (answered?.kind !== 'parse') throw new ProtocolError('ParseComplete that nobody waits for');
    return answered.ours ? 'drop' : 'pass';
  }

  #onClosed(): Passage {
    const answered = this.#outstanding.shift();
    if (answered?.kind !== 'close') throw new ProtocolError('CloseComplete that nobody waits for');
    if (answered.ours) return 'drop';
    return answered.for_parse ? PARSE_COMPLETE_MESSAGE : 'pass';
  }

  #onError(ours: boolean): void {
    const { bytes, offset, end } = this.#walker;
    this.#said = parseErrorFields(bytes.subarray(offset + HEADER_BYTES, end));
    if (ours && this.#own) this.#own.error = this.#said;
    // What a client relies on could not be set up.
    else if (ours) this.taint = TAINT.lasting;
    this.#copying_in = false;
    if (this.#outstanding.head?.kind !== 'query') this.#skipping = !this.#outstanding.skipToSync();
  }

  #onCopyIn(): void {
    // A COPY of a Query is answered by the ReadyForQuery behind it; in a batch, the Syncs before its end are not.
    if (this.#outstanding.head?.kind === 'query') {
      this.#copying_in = !this.#outstanding.removeCopyEnd();
      return;
    }
    this.#copying_in = !this.#outstanding.ignoreSyncsUpToCopyEnd();
    this.#batch_open = !this.#outstanding.has('sync');
  }

  #onTag(tag: string): void {
    if (!DEALLOCATED.includes(tag)) return;
    this.borrower?.onDeallocatedAll();
  }

  #onEnd(): void {
    const gone = this.closed;
    this.close();
    if (gone) return;
    const { borrower } = this;
    this.borrower = undefined;
    borrower?.onServerGone({ said: this.#said, cut: !this.#walker.between });
    this.onGone();
  }
}

/** The first column of a DataRow, as text. */
function firstColumn(bytes: Buffer, start: number): string | undefined {
  if (bytes.readInt16BE(start) === 0) return undefined;
  const length = bytes.readInt32BE(start + 2);
  return length < 0 ? undefined : bytes.toString('utf8', start + 6, start + 6 + length);
}
