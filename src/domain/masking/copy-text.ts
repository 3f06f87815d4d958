/** Rows in the text format of COPY: tabs between the columns, a line feed behind each row, both escaped within values. */

const ESCAPES: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' };
const SPECIAL: Readonly<Record<string, string>> = {
  '\\': '\\\\',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
};

/** The values of a row, given without its line feed. */
export const readCopyRow = (line: string): (string | null)[] =>
  line.split('\t').map((field) => {
    if (field === '\\N') return null;
    return field.includes('\\') ? field.replace(/\\(.)/gs, (_, character) => ESCAPES[character] ?? character) : field;
  });

/** With its line feed. */
export const writeCopyRow = (row: readonly (string | null)[]): string =>
  `${row.map((value) => (value === null ? '\\N' : value.replace(/[\\\b\f\n\r\t\v]/g, (character) => SPECIAL[character]!))).join('\t')}\n`;
