import { ProtocolError } from './message.ts';

/** What a client asked for in the `replication` start-up parameter. */
export type ReplicationMode = 'none' | 'logical' | 'physical';

const TRUE = /^(?:t|tr|tru|true|y|ye|yes|on|1)$/i;
const FALSE = /^(?:f|fa|fal|fals|false|n|no|of|off|0)$/i;

/** Reads the parameter as Postgres does: `database` to the letter, else a boolean in any of its spellings. */
export function parseReplication(value: string | undefined): ReplicationMode {
  if (value === undefined || FALSE.test(value)) return 'none';
  if (value === 'database') return 'logical';
  if (TRUE.test(value)) return 'physical';
  throw new ProtocolError(`invalid value for parameter "replication": "${value}"`, '22023');
}

/** What to do with a simple query on a logical replication connection; `undecided` when `text` is only its start. */
export type ReplicationVerdict = 'pass' | 'undecided' | { readonly refused: string };

// Blanks and words as the walsender's own scanner reads them (repl_scanner.l): no comments, and bytes from 0x80 on
// belong to words. `text` holds one character per byte.
const FIRST_WORD = /^[ \t\n\r\f\v]*([A-Za-z_\x80-\xff][A-Za-z0-9_$\x80-\xff]*)?/;
const TOKEN = /[ \t\n\r\f\v]*("(?:[^"]|"")*"|[A-Za-z_\x80-\xff][A-Za-z0-9_$\x80-\xff]*|[^ \t\n\r\f\v])/y;

const PASSED_COMMANDS = new Set([
  'SHOW',
  'IDENTIFY_SYSTEM',
  'TIMELINE_HISTORY',
  'DROP_REPLICATION_SLOT',
  'ALTER_REPLICATION_SLOT',
  'READ_REPLICATION_SLOT',
]);

/**
 * Judges a query. The walsender takes a string for a replication command if its first word is one of its keywords, and
 * then parses the whole of it as one command; everything else goes to the SQL parser, which knows no such command.
 * No SQL statement begins with a word that holds an underscore, so such a word is refused unless it is known to be harmless.
 * @param text the query's bytes as Latin-1, up to its terminating zero
 * @param complete false when more bytes of the query follow
 */
export function judgeReplicationQuery(text: string, complete: boolean): ReplicationVerdict {
  const match = FIRST_WORD.exec(text)!;
  const ends = match[0].length === text.length;
  if (ends && !complete) return 'undecided';
  const word = match[1]?.toUpperCase() ?? '';
  if (!word.includes('_') || PASSED_COMMANDS.has(word) || /[\x80-\xff]/.test(match[1]!)) return 'pass';
  if (word !== 'START_REPLICATION' && word !== 'CREATE_REPLICATION_SLOT') return { refused: word };
  if (!complete) return 'undecided';
  return isLogical(word, tokens(text)) ? 'pass' : { refused: `physical ${word}` };
}

function tokens(text: string): string[] {
  const found: string[] = [];
  TOKEN.lastIndex = 0;
  for (let match = TOKEN.exec(text); match && found.length < 5; match = TOKEN.exec(text)) found.push(match[1]!);
  return found;
}

/** `START_REPLICATION SLOT name LOGICAL …` and `CREATE_REPLICATION_SLOT name [TEMPORARY] LOGICAL …`. */
function isLogical(word: string, [, ...rest]: string[]): boolean {
  const is = (index: number, keyword: string) => rest[index]?.toUpperCase() === keyword;
  const isName = (index: number) => /^["A-Za-z_\x80-\xff]/.test(rest[index] ?? '');
  if (word === 'START_REPLICATION') return is(0, 'SLOT') && isName(1) && is(2, 'LOGICAL');
  return isName(0) && is(is(1, 'TEMPORARY') ? 2 : 1, 'LOGICAL');
}
