import { givenArguments, type RawRow, type TableColumn } from './given-arguments.ts';
import { MaskingProblem, parseMaskingCall } from './masking-call.ts';
import { MASKING_FUNCTIONS, type MaskGives, type MaskValue } from './masking-functions.ts';
import { isNull, type MaskingRule } from './masking-rule.ts';

/** What becomes of the rows of a table. */
export interface TableMask {
  /** Columns that are masked and that no function reads: nobody needs to be shown what is in them. */
  readonly unread: ReadonlySet<string>;
  /** The row as it is to be. */
  readonly mask: (row: RawRow) => (string | null)[];
}

const TEXTUAL = ['text', 'varchar', 'bpchar', 'citext', 'name'];
const NUMERIC = ['int2', 'int4', 'int8', 'numeric', 'float4', 'float8'];
const FITTING: Readonly<Partial<Record<MaskGives, readonly string[]>>> = {
  integer: NUMERIC,
  number: NUMERIC,
  time: ['date', 'timestamp', 'timestamptz'],
  boolean: ['bool'],
  uuid: ['uuid'],
  address: ['inet'],
};

const fits = (gives: MaskGives, type: string): boolean =>
  gives === 'any' || TEXTUAL.includes(type) || (FITTING[gives]?.includes(type) ?? gives === type);

/**
 * Makes the masks of one table.
 *
 * @param columns those that hold values of their own, in the order of a row
 * @param key the secret of the branch
 * @throws MaskingProblem, and so does a mask that meets a value that it cannot hide
 */
export function tableMask(columns: readonly TableColumn[], rules: readonly MaskingRule[], key: Buffer): TableMask {
  const read = new Set<number>();
  const masks = new Map<number, MaskValue>();
  for (const rule of rules) {
    const at = columns.findIndex(({ name }) => name === rule.column_name);
    if (at < 0) throw new MaskingProblem('the table does not have that column');
    masks.set(
      at,
      columnMask(columns, columns[at]!, rule, key, (column) => read.add(column)),
    );
  }
  const unread = columns.filter((_, at) => masks.has(at) && !read.has(at)).map(({ name }) => name);
  return {
    unread: new Set(unread),
    mask: (row) => row.map((value, at) => (masks.has(at) ? masks.get(at)!(row) : value)),
  };
}

function columnMask(
  columns: readonly TableColumn[],
  { type }: TableColumn,
  { masking_function, masking_value }: MaskingRule,
  key: Buffer,
  needs: (column: number) => void,
): MaskValue {
  if (masking_function === undefined) return () => masking_value ?? null;
  if (isNull(masking_function)) return () => null;
  const call = parseMaskingCall(masking_function);
  const known = MASKING_FUNCTIONS.get(call.name);
  if (!known) throw new MaskingProblem(`there is no masking function anon.${call.name} here`);
  if (!fits(known.gives, type)) {
    throw new MaskingProblem(
      `anon.${call.name} gives ${known.gives}, which does not fit into a column of type ${type}`,
    );
  }
  return known.make(givenArguments(call, columns, needs), key, type);
}
