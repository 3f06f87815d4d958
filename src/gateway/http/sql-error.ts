import { ComputeRefusal, type ErrorKind, type Refusal } from '../refusal.ts';

/** Letters of an ErrorResponse by the names that drivers know. */
const LETTERS = {
  severity: 'S',
  code: 'C',
  detail: 'D',
  hint: 'H',
  position: 'P',
  internalPosition: 'p',
  internalQuery: 'q',
  where: 'W',
  schema: 's',
  table: 't',
  column: 'c',
  dataType: 'd',
  constraint: 'n',
  file: 'F',
  line: 'L',
  routine: 'R',
} as const;

/** Drivers read an error's fields from 400 alone; everything else is told as a failure of the service. */
const STATUSES: Readonly<Record<ErrorKind, number>> = {
  user: 400,
  clientdisconnect: 400,
  ratelimit: 429,
  controlplane: 500,
  compute: 500,
  shutdown: 503,
};

export interface SqlError {
  readonly status: number;
  /** JSON; fields that the error lacks are null. */
  readonly body: string;
}

/** The answer for what the server said, by its letters. */
export function serverError(letters: ReadonlyMap<string, string>): SqlError {
  return { status: 400, body: errorBody(letters.get('M') ?? '', letters) };
}

export function refusalError(refusal: Refusal | ComputeRefusal): SqlError {
  if (refusal instanceof ComputeRefusal) {
    const { severity, code, detail, hint } = refusal.fields;
    return { status: 400, body: errorBody(refusal.message, letters({ S: severity, C: code, D: detail, H: hint })) };
  }
  const { code, hint, kind, http_status, message } = refusal;
  return { status: http_status ?? STATUSES[kind], body: errorBody(message, letters({ S: 'ERROR', C: code, H: hint })) };
}

const letters = (fields: Readonly<Record<string, string | undefined>>): ReadonlyMap<string, string> =>
  new Map(Object.entries(fields).filter((field): field is [string, string] => field[1] !== undefined));

function errorBody(message: string, fields: ReadonlyMap<string, string>): string {
  const named = Object.entries(LETTERS).map(([name, letter]) => [name, fields.get(letter) ?? null]);
  return JSON.stringify({ message, ...Object.fromEntries(named) });
}
