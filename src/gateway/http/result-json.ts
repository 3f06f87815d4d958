import type { Field } from '../../wire/extended-query.ts';
import { type JsonWriter, jsonWriter } from './json-value.ts';

/** Texts are gathered up to so many characters before they become bytes. */
const CHUNK_CHARACTERS = 64 * 1024;

/** An answer in the making: JSON text, as bytes in pieces. `grow` hears of the bytes of each piece before it is kept. */
export class JsonPieces {
  readonly #grow: (bytes: number) => void;
  readonly #pieces: Buffer[] = [];
  #text = '';

  constructor(grow: (bytes: number) => void) {
    this.#grow = grow;
  }

  add(text: string): void {
    this.#text += text;
    if (this.#text.length >= CHUNK_CHARACTERS) this.flush();
  }

  /** All pieces, in order. */
  take(): readonly Buffer[] {
    this.flush();
    return this.#pieces;
  }

  /** Makes bytes of what was added. */
  flush(): void {
    const piece = Buffer.from(this.#text, 'utf8');
    this.#text = '';
    this.#grow(piece.length);
    this.#pieces.push(piece);
  }
}

/** Writes the result of one statement as it comes. */
export interface ResultWriter {
  fields(fields: readonly Field[]): void;
  /** The body of a DataRow. */
  row(body: Buffer): void;
  end(command: string, rows: number | null): void;
}

export function resultWriter(
  pieces: JsonPieces,
  { raw_text, array_mode }: { readonly raw_text: boolean; readonly array_mode: boolean },
): ResultWriter {
  let columns: readonly Column[] = [];
  let opened = false;
  let first = true;
  const open = (fields: readonly Field[]) => {
    opened = true;
    pieces.add(`{"fields":[${fields.map(fieldJson).join(',')}],"rows":[`);
  };
  return {
    fields(fields) {
      columns = fields.map((field, at) => ({
        write: jsonWriter(field.type_id, raw_text),
        key: array_mode ? '' : `${JSON.stringify(field.name)}:`,
        // Of columns with one name an object holds the last.
        kept: array_mode || fields.findLastIndex(({ name }) => name === field.name) === at,
      }));
      open(fields);
    },
    row(body) {
      pieces.add(rowJson(body, columns, first, array_mode));
      first = false;
    },
    end(command, rows) {
      if (!opened) open([]);
      const count = rows === null ? 'null' : String(rows);
      pieces.add(`],"command":${JSON.stringify(command)},"rowCount":${count},"rowAsArray":${array_mode}}`);
    },
  };
}

interface Column {
  readonly write: JsonWriter;
  readonly key: string;
  readonly kept: boolean;
}

function rowJson(body: Buffer, columns: readonly Column[], first: boolean, array_mode: boolean): string {
  let json = first ? '' : ',';
  json += array_mode ? '[' : '{';
  let separator = '';
  let at = 2;
  for (const { write, key, kept } of columns) {
    const length = body.readInt32BE(at);
    at += 4;
    if (kept) {
      const value = length < 0 ? 'null' : write(body.toString('utf8', at, at + length));
      json += separator + key + value;
      separator = ',';
    }
    if (length > 0) at += length;
  }
  return json + (array_mode ? ']' : '}');
}

const fieldJson = (field: Field): string =>
  JSON.stringify({
    name: field.name,
    dataTypeID: field.type_id,
    tableID: field.table_id,
    columnID: field.column_id,
    dataTypeSize: field.type_size,
    dataTypeModifier: field.type_modifier,
    format: 'text',
  });
