import { MaskingProblem, parseMaskingCall } from './masking-call.ts';
import { MASKING_FUNCTIONS } from './masking-functions.ts';

/** One column, and what becomes of it: a call of a function of `anon`, or the same value in every row. Fields as in the API. */
export interface MaskingRule {
  readonly database_name: string;
  readonly schema_name: string;
  readonly table_name: string;
  readonly column_name: string;
  readonly masking_function?: string;
  readonly masking_value?: string;
}

/** A rule that cannot be kept, with what is wrong. */
export interface RefusedRule {
  readonly rule: MaskingRule;
  readonly problem: string;
}

const placeOf = (rule: MaskingRule): string =>
  JSON.stringify([rule.database_name, rule.schema_name, rule.table_name, rule.column_name]);

/** How a rule is named to people. */
export const ruleName = (rule: MaskingRule): string =>
  `${rule.database_name}.${rule.schema_name}.${rule.table_name}.${rule.column_name}`;

/** The first rule that is wrong by itself, whatever the databases hold; undefined when all may be right. */
export function findRefusedRule(rules: readonly MaskingRule[]): RefusedRule | undefined {
  const places = new Set<string>();
  for (const rule of rules) {
    const problem = places.has(placeOf(rule)) ? 'the column has a rule already' : problemOf(rule);
    if (problem) return { rule, problem };
    places.add(placeOf(rule));
  }
  return undefined;
}

function problemOf({ masking_function, masking_value }: MaskingRule): string | undefined {
  if ((masking_function === undefined) === (masking_value === undefined)) {
    return 'either masking_function or masking_value must be given';
  }
  if (masking_function === undefined || isNull(masking_function)) return undefined;
  try {
    const { name, arguments: given } = parseMaskingCall(masking_function);
    const known = MASKING_FUNCTIONS.get(name);
    if (!known) return `there is no masking function anon.${name} here`;
    const [least, most] = known.takes;
    const right = given.length >= least && given.length <= most;
    return right
      ? undefined
      : `anon.${name} takes ${least === most ? least : `${least} to ${most}`} arguments, not ${given.length}`;
  } catch (error) {
    if (error instanceof MaskingProblem) return error.message;
    throw error;
  }
}

/** In place of a call: the column is emptied. */
export const isNull = (masking_function: string): boolean => /^\s*null\s*$/i.test(masking_function);
