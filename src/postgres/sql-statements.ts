/** What begins a statement whose body may hold semicolons, and that body. */
const ROUTINE = /^create\s+(or\s+replace\s+)?(function|procedure)\b/i;
const ATOMIC = /^begin\s+atomic\b/i;
const TOKEN =
  /--[^\n]*|\/\*|"(?:[^"]|"")*"|(?<![\p{L}\p{N}_$])[eE]'(?:[^'\\]|\\[\s\S]|'')*'|'(?:[^']|'')*'|\$(?:[\p{L}_][\p{L}\p{N}_]*)?\$|[\p{L}_][\p{L}\p{N}_$]*|[();]/uy;

/**
 * Cuts a script into statements, as psql does: a semicolon ends one unless it stands in a string, a name, a comment,
 * parentheses or the body of a routine in standard SQL. `standard_conforming_strings` is taken to be on. Comments before a
 * statement are left out. Throws where a string or a comment has no end.
 */
export function* sqlStatements(script: string): Generator<string> {
  let start = -1;
  let parentheses = 0;
  let blocks = 0;
  let at = 0;
  const began = (index: number) => {
    if (start < 0) start = index;
  };
  while (at < script.length) {
    TOKEN.lastIndex = at;
    const token = TOKEN.exec(script)?.[0];
    if (token === undefined) {
      if (/['"]/.test(script[at]!)) throw new Error('a string in the script has no end');
      if (/\S/.test(script[at]!)) began(at);
      at += 1;
      continue;
    }
    const index = at;
    at += token.length;
    if (token.startsWith('--')) continue;
    if (token === '/*') {
      at = endOfComment(script, index);
      continue;
    }
    began(index);
    if (token.startsWith('$')) at = endOfDollarQuote(script, index, token);
    else if (token === '(') parentheses += 1;
    else if (token === ')') parentheses -= 1;
    else if (token === ';' && parentheses <= 0 && blocks === 0) {
      yield script.slice(start, index);
      start = -1;
      parentheses = 0;
    } else if (parentheses <= 0) {
      const opens =
        blocks === 0 && ATOMIC.test(script.slice(index, index + 100)) && ROUTINE.test(script.slice(start, start + 100));
      blocks = opens ? 1 : blocksAfter(token, blocks);
    }
  }
  if (start >= 0) throw new Error('the last statement of the script has no end');
}

/** The body goes on to its END; a CASE inside has one, too. Both words are reserved: nothing else is called so. */
function blocksAfter(word: string, blocks: number): number {
  if (blocks > 0 && /^case$/i.test(word)) return blocks + 1;
  return blocks > 0 && /^end$/i.test(word) ? blocks - 1 : blocks;
}

function endOfDollarQuote(script: string, start: number, tag: string): number {
  const end = script.indexOf(tag, start + tag.length);
  if (end < 0) throw new Error('a dollar-quoted string in the script has no end');
  return end + tag.length;
}

/** Comments nest. */
function endOfComment(script: string, start: number): number {
  const mark = /\/\*|\*\//g;
  mark.lastIndex = start + 2;
  for (let depth = 1; depth > 0; ) {
    const found = mark.exec(script);
    if (!found) throw new Error('a comment in the script has no end');
    depth += found[0] === '/*' ? 1 : -1;
  }
  return mark.lastIndex;
}
