/**
 * Values as JSON. In raw mode each is the server's text; else numbers, booleans, JSON and arrays of built-in types become
 * what they are. Numbers that a double cannot hold (bigint, numeric) stay text.
 */

/** Writes the text of a value, which is not null, as JSON. */
export type JsonWriter = (text: string) => string;

const asText: JsonWriter = (text) => JSON.stringify(text);
const asBoolean: JsonWriter = (text) => (text === 't' ? 'true' : 'false');
/** `NaN` and `Infinity` are no JSON. */
const asNumber: JsonWriter = (text) => (/^-?\d/.test(text) ? text : asText(text));
const asJson: JsonWriter = (text) => text;

/** Type id -> writer; what is missing is text. */
const WRITERS = new Map<number, JsonWriter>([
  [16, asBoolean],
  [21, asNumber],
  [23, asNumber],
  [700, asNumber],
  [701, asNumber],
  [114, asJson],
  [3802, asJson],
]);

/** Array type id -> type id of its elements, for the built-in types whose arrays are separated by commas. */
const ELEMENTS = new Map<number, number>([
  [1000, 16],
  [1005, 21],
  [1007, 23],
  [1021, 700],
  [1022, 701],
  [199, 114],
  [3807, 3802],
  // Everything from here on is text inside.
  ...[
    143, 651, 775, 791, 1001, 1002, 1003, 1008, 1009, 1010, 1011, 1012, 1014, 1015, 1016, 1017, 1028, 1034, 1040, 1041,
  ]
    .concat([1115, 1182, 1183, 1185, 1187, 1231, 1263, 1270, 1561, 1563, 2201, 2207, 2210, 2211, 2949, 2951, 3221])
    .map((id) => [id, 25] as const),
]);

/** How values of a type are written. */
export function jsonWriter(type_id: number, raw_text: boolean): JsonWriter {
  if (raw_text) return asText;
  const element = ELEMENTS.get(type_id);
  if (element === undefined) return WRITERS.get(type_id) ?? asText;
  const writeElement = WRITERS.get(element) ?? asText;
  return (text) => arrayJson(text, writeElement);
}

/** A token of an array literal: a brace, a comma, a quoted or a plain element. */
const TOKEN = /([{},])|"((?:[^"\\]|\\[\s\S])*)"|([^{},"]+)/gy;

/** An array literal as a JSON array; its lower bounds (`[2:3]={…}`) are dropped. */
function arrayJson(text: string, write: JsonWriter): string {
  let json = '';
  TOKEN.lastIndex = text.startsWith('[') ? text.indexOf('=') + 1 : 0;
  for (let token = TOKEN.exec(text); token; token = TOKEN.exec(text)) {
    const [, mark, quoted, plain] = token;
    if (mark) json += mark === '{' ? '[' : mark === '}' ? ']' : ',';
    else if (plain !== undefined) json += plain === 'NULL' ? 'null' : write(plain);
    else json += write(quoted!.replace(/\\([\s\S])/g, '$1'));
  }
  return json;
}
