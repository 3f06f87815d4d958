import { LIMITS } from '../../domain/limits.ts';
import type { FrameWalker } from '../../wire/frame-walker.ts';
import { query } from '../../wire/frontend-messages.ts';
import { ProtocolError } from '../../wire/message.ts';
import { bodyStart, closeStatement, parseStatement, renamedStart, stringEnd } from '../../wire/statement-messages.ts';
import { type Judgement, judgeText, UNREAD } from './judge-text.ts';
import { AWAITED, type Awaited } from './outstanding.ts';
import type { ServerConnection } from './server-connection.ts';
import { ABSENT_NAME, foreignName, judgeParse, type PooledStatement, type StatementRegistry } from './statements.ts';

const type = (character: string) => character.charCodeAt(0);
const TYPE = {
  query: type('Q'),
  parse: type('P'),
  bind: type('B'),
  describe: type('D'),
  close: type('C'),
  execute: type('E'),
  flush: type('H'),
  sync: type('S'),
  call: type('F'),
  copyData: type('d'),
  copyDone: type('c'),
  copyFail: type('f'),
};
/** In Describe and Close: a statement, not a portal. */
const STATEMENT = type('S');

const NO_LISTEN =
  "DO LANGUAGE plpgsql $refusal$ BEGIN RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'LISTEN is not available on pooled hosts', HINT = 'Connect to the direct host: the same name without `-pooler`.'; END $refusal$";
/** Changes nothing, where what a client wants to drop is not there. */
const NOTHING = 'UNLISTEN *';

/** A statement that a client has prepared under a name of its own. */
interface Named {
  readonly statement: PooledStatement;
  /** Before the last text that may drop everything: then it is there only if that text was not carried out. */
  readonly epoch: number;
}

/** The client's unnamed statement. */
interface Unnamed {
  /** Undefined where it is too long to be kept. */
  readonly rest: Buffer | undefined;
  readonly judgement: Judgement;
}

/**
 * Passes a client's messages on to a server connection that is not its own: names of prepared statements are changed,
 * what is not prepared there is prepared first, and what the server will answer is counted.
 */
export class ClientMessages {
  readonly #registry: StatementRegistry;
  readonly #named = new Map<string, Named>();
  #named_bytes = 0;
  #epoch = 0;
  #unnamed: Unnamed | undefined;
  #pieces: Buffer[] = [];
  /** Everything in the walker's bytes before this is in the pieces, or dropped. */
  #from = 0;

  constructor(registry: StatementRegistry) {
    this.#registry = registry;
  }

  /** Begins with what the walker was fed. */
  begin(from: number): void {
    this.#pieces = [];
    this.#from = from;
  }

  /** Leaves the current message out. */
  drop(walker: FrameWalker): void {
    this.#replace(walker, walker.end, undefined);
  }

  /** Puts bytes of ours before the current message. */
  put(walker: FrameWalker, bytes: Buffer): void {
    this.#replace(walker, walker.offset, bytes);
  }

  /** What is to be sent of everything since `begin`; it may lie in the walker's bytes. */
  finish({ bytes, limit }: FrameWalker): Buffer {
    const from = Math.min(this.#from, limit);
    const rest = from === 0 && limit === bytes.length ? bytes : bytes.subarray(from, limit);
    if (this.#pieces.length === 0) return rest;
    if (rest.length > 0) this.#pieces.push(rest);
    return this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces);
  }

  /** Takes the current message in. False when it is held back until more of it is there. Throws a ProtocolError. */
  pass(walker: FrameWalker, server: ServerConnection): boolean {
    switch (walker.type) {
      case TYPE.query:
        return this.#passQuery(walker, server);
      case TYPE.parse:
        return this.#passParse(walker, server);
      case TYPE.bind:
        return this.#passBind(walker, server);
      case TYPE.describe:
      case TYPE.close:
        return this.#passNamed(walker, server);
      case TYPE.execute:
        server.expectRun();
        return true;
      case TYPE.sync:
        server.expectSync();
        return true;
      case TYPE.call:
        server.note(UNREAD);
        server.expectQuery();
        return true;
      case TYPE.copyDone:
      case TYPE.copyFail:
        if (server.mayCopy) server.expectCopyEnd();
        else this.drop(walker);
        return true;
      case TYPE.copyData:
      case TYPE.flush:
        return true;
      default:
        throw new ProtocolError(`invalid frontend message type ${walker.type}`);
    }
  }

  onDeallocatedAll(): void {
    for (const [name, { epoch }] of this.#named) if (epoch < this.#epoch) this.#remove(name);
  }

  /** Lets go of everything that the client has prepared. */
  close(): void {
    for (const name of [...this.#named.keys()]) this.#remove(name);
  }

  #passQuery(walker: FrameWalker, server: ServerConnection): boolean {
    const start = bodyStart(walker.offset);
    let judgement = UNREAD;
    if (walker.end - start <= LIMITS.pool_judged_bytes) {
      if (!walker.complete) return hold(walker, walker.current_bytes);
      judgement = judgeText(walker.bytes.toString('latin1', start, walker.end - 1));
    }
    const other = this.#otherText(judgement, server);
    server.expectQuery();
    this.#unnamed = undefined;
    if (other !== undefined) this.#replace(walker, walker.end, query(other));
    else this.#note(judgement, server);
    return true;
  }

  /** A text to send in place of the client's; undefined for most. */
  #otherText({ listens, deallocates }: Judgement, server: ServerConnection): string | undefined {
    if (listens) return NO_LISTEN;
    const known = deallocates === undefined ? undefined : this.#named.get(deallocates);
    if (!known) return undefined;
    this.#remove(deallocates!);
    const name = server.statements.use(known.statement);
    if (name === undefined) return NOTHING;
    server.statements.remove(known.statement);
    return `DEALLOCATE ${name}`;
  }

  #note(judgement: Judgement, server: ServerConnection): void {
    server.note(judgement);
    if (judgement.deallocates_all) this.#epoch++;
  }

  #passParse(walker: FrameWalker, server: ServerConnection): boolean {
    const start = bodyStart(walker.offset);
    const name_end = findEnd(walker, start);
    if (name_end === undefined) return false;
    if (name_end === start) return this.#passUnnamedParse(walker, server);
    if (walker.current_bytes > LIMITS.pool_statement_bytes) {
      throw new ProtocolError('the statement is too long to be prepared by name on a pooled host', '54000');
    }
    if (!walker.complete) return hold(walker, walker.current_bytes);
    const name = walker.bytes.toString('latin1', start, name_end);
    const rest = walker.bytes.subarray(name_end + 1, walker.end);
    const before: Buffer[] = [];
    const known = this.#named.get(name);
    if (known && known.epoch === this.#epoch) {
      // The server says that it exists.
      before.push(parseStatement(server.prepare(known.statement, before), rest));
      server.expectInBatch(AWAITED.parse);
    } else {
      if (known) this.#remove(name);
      this.#prepare(name, judgeParse(rest).listens ? textOf(NO_LISTEN) : rest, server, before);
    }
    this.#replace(walker, walker.end, Buffer.concat(before));
    return true;
  }

  #prepare(name: string, rest: Buffer, server: ServerConnection, before: Buffer[]): void {
    const over = this.#named.size >= LIMITS.pool_statements_per_client;
    if (over || this.#named_bytes + rest.length > LIMITS.pool_statement_bytes_per_client) {
      throw new ProtocolError('the client has prepared too many statements', '53200');
    }
    const statement = this.#registry.take(rest);
    if (!statement) throw new ProtocolError('the pool holds too many prepared statements', '53200');
    const named = { statement, epoch: this.#epoch };
    this.#named.set(name, named);
    this.#named_bytes += rest.length;
    const forget = () => {
      if (this.#named.get(name) === named) this.#remove(name);
    };
    if (server.statements.use(statement) !== undefined) {
      before.push(closeStatement(ABSENT_NAME));
      server.expectInBatch({ kind: 'close', ours: false, for_parse: true, onSkipped: forget });
      return;
    }
    const server_name = server.addStatement(statement, before);
    before.push(parseStatement(server_name, rest));
    const onSkipped = () => {
      server.statements.remove(statement);
      forget();
    };
    server.expectInBatch({ kind: 'parse', ours: false, onSkipped });
  }

  #passUnnamedParse(walker: FrameWalker, server: ServerConnection): boolean {
    const start = bodyStart(walker.offset) + 1;
    const kept = walker.end - start <= LIMITS.pool_judged_bytes;
    if (kept && !walker.complete) return hold(walker, walker.current_bytes);
    let unnamed: Unnamed = { rest: undefined, judgement: UNREAD };
    if (kept) {
      const rest = Buffer.from(walker.bytes.subarray(start, walker.end));
      const judgement = judgeParse(rest);
      const other = this.#otherText(judgement, server);
      unnamed = other === undefined ? { rest, judgement } : { rest: textOf(other), judgement: judgeText('') };
      if (other !== undefined) this.#replace(walker, walker.end, parseStatement('', unnamed.rest!));
    }
    this.#unnamed = unnamed;
    server.unnamed = unnamed;
    const onSkipped = () => {
      if (server.unnamed === unnamed) server.unnamed = undefined;
      if (this.#unnamed === unnamed) this.#unnamed = undefined;
    };
    server.expectInBatch({ kind: 'parse', ours: false, onSkipped });
    return true;
  }

  #passBind(walker: FrameWalker, server: ServerConnection): boolean {
    const portal_end = findEnd(walker, bodyStart(walker.offset));
    if (portal_end === undefined) return false;
    const name_end = findEnd(walker, portal_end + 1);
    if (name_end === undefined) return false;
    this.#useStatement(walker, server, portal_end + 1, name_end, true);
    server.expectRun();
    return true;
  }

  /** Describe and Close. */
  #passNamed(walker: FrameWalker, server: ServerConnection): boolean {
    const start = bodyStart(walker.offset) + 1;
    const name_end = findEnd(walker, start);
    if (name_end === undefined) return false;
    if (!walker.complete) return hold(walker, walker.current_bytes);
    const ofStatement = walker.bytes[start - 1] === STATEMENT;
    if (walker.type === TYPE.describe) {
      if (ofStatement) this.#useStatement(walker, server, start, name_end, false);
      server.expectInBatch();
      return true;
    }
    let awaited: Awaited = AWAITED.close;
    if (ofStatement && name_end === start) {
      this.#unnamed = undefined;
      server.unnamed = undefined;
    } else if (ofStatement) awaited = this.#closeNamed(walker, start, name_end);
    server.expectInBatch(awaited);
    return true;
  }

  /** The statement stays where it is: others may use it. Its name here is free again. */
  #closeNamed(walker: FrameWalker, start: number, name_end: number): Awaited {
    const name = walker.bytes.toString('latin1', start, name_end);
    const known = this.#named.get(name);
    const other = known ? ABSENT_NAME : foreignName(name);
    if (other !== name) this.#replace(walker, walker.end, closeStatement(other));
    if (!known) return AWAITED.close;
    this.#remove(name);
    const onSkipped = () => {
      const statement = this.#named.has(name) ? undefined : this.#registry.take(known.statement.rest);
      if (!statement) return;
      this.#named.set(name, { statement, epoch: known.epoch });
      this.#named_bytes += statement.rest.length;
    };
    return { kind: 'close', ours: false, for_parse: false, onSkipped };
  }

  /** Sees to it that the server has the statement that a message names, and changes the name. */
  #useStatement(walker: FrameWalker, server: ServerConnection, start: number, name_end: number, runs: boolean): void {
    if (name_end === start) {
      this.#useUnnamed(walker, server, runs);
      return;
    }
    const name = walker.bytes.toString('latin1', start, name_end);
    const known = this.#named.get(name);
    const before: Buffer[] = [];
    const other = known ? server.prepare(known.statement, before) : foreignName(name);
    if (runs) this.#note(known?.statement.judgement ?? UNREAD, server);
    if (other === name) return;
    const { bytes, offset, end } = walker;
    before.push(renamedStart(bytes, { offset, end, name_start: start, name_end }, other));
    this.#replace(walker, name_end + 1, before.length === 1 ? before[0] : Buffer.concat(before));
  }

  #useUnnamed(walker: FrameWalker, server: ServerConnection, runs: boolean): void {
    const unnamed = this.#unnamed;
    if (unnamed && runs) this.#note(unnamed.judgement, server);
    if (server.unnamed === unnamed) return;
    if (unnamed && !unnamed.rest) {
      throw new ProtocolError('the unnamed statement is too long to be used in another transaction here', '0A000');
    }
    // Another client's, if anything, is there.
    this.put(walker, unnamed ? parseStatement('', unnamed.rest!) : closeStatement(''));
    server.expectInBatch(unnamed ? AWAITED.our_parse : AWAITED.our_close);
    server.unnamed = unnamed;
  }

  #replace(walker: FrameWalker, to: number, bytes: Buffer | undefined): void {
    if (walker.offset > this.#from) this.#pieces.push(walker.bytes.subarray(this.#from, walker.offset));
    if (bytes) this.#pieces.push(bytes);
    this.#from = to;
  }

  #remove(name: string): void {
    const { statement } = this.#named.get(name)!;
    this.#named.delete(name);
    this.#named_bytes -= statement.rest.length;
    this.#registry.release(statement);
  }
}

/** What follows the name in a Parse of a text without parameters. */
const textOf = (sql: string): Buffer => Buffer.from(`${sql}\0\0\0`);

function hold(walker: FrameWalker, wanted_bytes: number): false {
  walker.hold(wanted_bytes);
  return false;
}

/** Where a name ends; undefined when the message is held back for it. Throws for one that is too long, or has no end. */
function findEnd(walker: FrameWalker, start: number): number | undefined {
  const { bytes, offset, end } = walker;
  const found = start < bytes.length ? stringEnd(bytes, start, end) : -1;
  if (found >= 0) return found;
  const seen_bytes = Math.min(bytes.length, end) - offset;
  if (walker.complete) throw new ProtocolError('invalid string in message');
  if (seen_bytes > LIMITS.pool_name_bytes) throw new ProtocolError('a name in the message is too long', '42622');
  walker.hold(Math.min(end - offset, 2 * seen_bytes));
  return undefined;
}
