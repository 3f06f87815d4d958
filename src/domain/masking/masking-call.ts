/** What stands between the parentheses of a call of a masking function. */
export type MaskingArgument =
  | { readonly kind: 'column'; readonly name: string }
  | { readonly kind: 'literal'; readonly value: string }
  | { readonly kind: 'list'; readonly values: readonly string[] }
  | { readonly kind: 'null' };

/** `anon.partial(phone, 2, '***', 2)`, read. */
export interface MaskingCall {
  readonly name: string;
  readonly arguments: readonly MaskingArgument[];
}

/** What is wrong with a rule, in words for whoever wrote it. */
export class MaskingProblem extends Error {
  override name = 'MaskingProblem';
}

type Token = { readonly kind: 'word' | 'name' | 'literal' | 'sign'; readonly text: string };

/** In order: an unquoted word, a quoted name, a string, a dollar-quoted string, a number, a sign. */
const TOKEN =
  /\s+|([A-Za-z_][A-Za-z0-9_]*)|"((?:[^"]|"")+)"|'((?:[^']|'')*)'|\$\$([\s\S]*?)\$\$|([+-]?\d+(?:\.\d+)?)|(::|[(),.;[\]])/y;

/**
 * Reads one call of a function of the schema `anon`: names of columns, strings, numbers, `ARRAY[...]` and NULL are all that
 * it may hold, and casts, which say nothing here. Nothing of the text ever becomes SQL.
 * @throws MaskingProblem
 */
export function parseMaskingCall(text: string): MaskingCall {
  const tokens = tokensOf(text);
  let at = 0;
  const peek = (sign: string) => tokens[at]?.kind === 'sign' && tokens[at]?.text === sign;
  const take = (sign: string) => {
    if (!peek(sign))
      throw new MaskingProblem(`there must be "${sign}" ${tokens[at] ? `before "${tokens[at]!.text}"` : 'at its end'}`);
    at += 1;
  };
  const word = (what: string): string => {
    const token = tokens[at];
    if (token?.kind !== 'word') throw new MaskingProblem(`it must be a call like anon.fake_email(), with ${what}`);
    at += 1;
    return token.text.toLowerCase();
  };
  const skipCasts = () => {
    while (peek('::')) {
      at += 1;
      if (tokens[at]?.kind !== 'word') throw new MaskingProblem('there must be a type after "::"');
      while (tokens[at]?.kind === 'word') at += 1;
      if (peek('(')) at = endOfParentheses(tokens, at);
    }
  };
  const literal = (): string => {
    const token = tokens[at];
    if (token?.kind !== 'literal') throw new MaskingProblem('a list holds strings and numbers only');
    at += 1;
    skipCasts();
    return token.text;
  };
  const list = (): MaskingArgument => {
    const values: string[] = [];
    take('[');
    while (!peek(']')) {
      values.push(literal());
      if (!peek(']')) take(',');
    }
    take(']');
    return { kind: 'list', values };
  };
  const argument = (): MaskingArgument => {
    const token = tokens[at];
    at += 1;
    if (token?.kind === 'literal') return { kind: 'literal', value: token.text };
    if (token?.kind === 'name') return { kind: 'column', name: token.text };
    if (token?.kind !== 'word')
      throw new MaskingProblem('an argument is a column, a string, a number, ARRAY[...] or NULL');
    const name = token.text.toLowerCase();
    if (name === 'null') return { kind: 'null' };
    return name === 'array' && peek('[') ? list() : { kind: 'column', name };
  };

  if (word('the schema anon') !== 'anon') throw new MaskingProblem('only functions of the schema anon are known');
  take('.');
  const name = word('the name of a function');
  take('(');
  const given: MaskingArgument[] = [];
  while (!peek(')')) {
    given.push(argument());
    skipCasts();
    if (!peek(')')) take(',');
  }
  take(')');
  if (peek(';')) at += 1;
  if (at < tokens.length) throw new MaskingProblem(`nothing may follow the call, and "${tokens[at]!.text}" does`);
  return { name, arguments: given };
}

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  while (at < text.length) {
    TOKEN.lastIndex = at;
    const found = TOKEN.exec(text);
    if (!found) throw new MaskingProblem(`"${text.slice(at, at + 20)}" is not understood`);
    at = TOKEN.lastIndex;
    const [, word, name, string, dollars, number, sign] = found;
    if (word !== undefined) tokens.push({ kind: 'word', text: word });
    else if (name !== undefined) tokens.push({ kind: 'name', text: name.replaceAll('""', '"') });
    else if (sign !== undefined) tokens.push({ kind: 'sign', text: sign });
    else {
      const value = string?.replaceAll("''", "'") ?? dollars ?? number;
      if (value !== undefined) tokens.push({ kind: 'literal', text: value });
    }
  }
  return tokens;
}

/** Of `varchar(10)` or `numeric(10, 2)`. */
function endOfParentheses(tokens: readonly Token[], start: number): number {
  const end = tokens.findIndex(({ kind, text }, at) => at > start && kind === 'sign' && text === ')');
  if (end < 0) throw new MaskingProblem('there must be ")" at its end');
  return end + 1;
}
