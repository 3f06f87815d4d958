import { LIMITS } from '../../domain/limits.ts';
import { TAINT, type Taint } from './session-state.ts';

/** What a statement's text tells of its effects on the session. */
export interface Judgement {
  readonly taint: Taint;
  /** It asks for notifications, which do not reach a client of a pool. */
  readonly listens: boolean;
  /** It may drop every prepared statement of the session. */
  readonly deallocates_all: boolean;
  /** It drops the prepared statement of this name, and does nothing else. */
  readonly deallocates: string | undefined;
  /** It may make or change functions, triggers, views and the like. */
  readonly changes_code: boolean;
}

const judgement = (parts: Partial<Judgement>): Judgement => ({
  ...{ taint: TAINT.none, listens: false, deallocates_all: false, deallocates: undefined, changes_code: false },
  ...parts,
});

/** Of a text that is not looked at: too long, or a call that has none. */
export const UNREAD: Judgement = judgement({ taint: TAINT.hard, deallocates_all: true, changes_code: true });

const HARMLESS = judgement({});
const SOFT = judgement({ taint: TAINT.soft });

/** Statements that leave nothing in the session by themselves; what they call is looked at besides. */
const START = String.raw`(?:select|update|delete|with|values|begin|commit|rollback|end|abort|start\s+transaction|savepoint|release|show|fetch|move|set\s+(?:local|transaction)|notify)\b`;
const STARTS_WELL = new RegExp(String.raw`^\s*(?:/\*[^*]*\*/\s*)*${START}`, 'i');
/** A semicolon in a literal only costs the proof. */
const GOES_ON_BADLY = new RegExp(String.raw`;\s*(?!\s|$|${START})`, 'i');
const LEADING_COMMENT = /^\s*(?:\/\*[^*]*\*\/\s*)*/;
/**
 * Words that can leave something behind wherever they stand: temporary tables, tables made of a result, values of
 * sequences; comments and escaped identifiers, in which a call could hide.
 */
const SUSPECT = /--|\/\*|u&|\b(?:pg_temp|temp|temporary|insert|into|merge|default)\b/i;
const SPACE = /\s/;
const WORD = /[\w$."\x80-\uffff]/;
const OPERATOR = /[-+*/<>=~!@#%^&|?,;:([]/;

/** Keywords that stand before a parenthesis, and functions that neither change a session nor run other code. */
const PLAIN_WORDS = new Set(
  `in any some all exists and or not as on using values from where having by over filter group within case when then
  else select union except intersect distinct limit offset fetch lateral row rows array returning with materialized set
  between like ilike similar is interval numeric decimal varchar char character bit timestamp timestamptz time timetz
  count sum avg min max coalesce nullif greatest least now clock_timestamp statement_timestamp transaction_timestamp
  abs ceil ceiling floor round trunc power sqrt exp ln log mod sign div random gen_random_uuid md5 sha256
  lower upper length char_length octet_length substring substr trim btrim ltrim rtrim replace position strpos split_part
  left right lpad rpad reverse repeat concat concat_ws format initcap ascii chr translate overlay starts_with
  regexp_replace regexp_matches regexp_match regexp_split_to_table regexp_split_to_array string_agg array_agg bool_and
  bool_or every json_agg jsonb_agg json_object_agg jsonb_object_agg row_to_json to_json to_jsonb json_build_object
  jsonb_build_object json_build_array jsonb_build_array jsonb_set jsonb_insert jsonb_array_elements json_array_elements
  jsonb_array_elements_text jsonb_array_length json_array_length jsonb_each jsonb_each_text jsonb_typeof
  jsonb_extract_path jsonb_extract_path_text jsonb_strip_nulls jsonb_path_query jsonb_path_exists
  array_length array_append array_prepend array_cat array_remove array_position array_to_string string_to_array
  cardinality unnest generate_series generate_subscripts row_number rank dense_rank percent_rank ntile lag lead
  first_value last_value nth_value percentile_cont percentile_disc
  date_trunc date_part extract age make_date make_interval make_timestamp to_char to_date to_number to_timestamp
  cast encode decode to_tsvector to_tsquery plainto_tsquery websearch_to_tsquery ts_rank version current_database
  current_schema current_setting pg_backend_pid pg_sleep pg_typeof txid_current pg_current_xact_id pg_try_advisory_xact_lock
  pg_advisory_xact_lock pg_advisory_xact_lock_shared`.split(/\s+/),
);

const LISTENS = /^\s*listen\b|;\s*listen\b/i;
const DEALLOCATES_ALL = /\b(?:deallocate\s+(?:prepare\s+)?all|discard\s+all)\b/i;
const DEALLOCATES =
  /^\s*deallocate\s+(?:prepare\s+)?(?:"((?:[^"]|"")+)"|([a-z_\x80-\uffff][\w$\x80-\uffff]*))\s*;?\s*$/i;
/** What DISCARD ALL does not undo. */
const LASTS =
  /\bload\b|setseed|dblink|pg_backup_start|pg_start_backup|replication_(?:slot|origin)|pg_stat_force|cursor_to_xml/i;
const PREPARES = /\b(?:prepare|execute|deallocate|discard|do|call|query_to_xml\w*|ts_stat)\b/i;
const CHANGES_CODE = /\b(?:create|alter|drop|do|call|execute|import)\b/i;

/**
 * Judges the text of a query or a prepared statement. A text counts as harmless only when it can be told from the text
 * that it leaves nothing in its session, apart from code of the database's own that it runs (triggers, views, operators).
 * Wrong in one direction alone: a harmless text may be taken for one that is not.
 * @param text a character for each byte; longer than the bound it is not looked at
 */
export function judgeText(text: string): Judgement {
  if (text.length > LIMITS.pool_judged_bytes) return UNREAD;
  if (isHarmless(text)) return HARMLESS;
  const listens = LISTENS.test(text);
  const deallocates_all = DEALLOCATES_ALL.test(text);
  const name = DEALLOCATES.exec(text);
  const deallocates = name && !deallocates_all ? (name[1]?.replaceAll('""', '"') ?? name[2]!.toLowerCase()) : undefined;
  const taint = LASTS.test(text) ? TAINT.lasting : PREPARES.test(text) ? TAINT.hard : TAINT.soft;
  const changes_code = CHANGES_CODE.test(text);
  if (taint === TAINT.soft && !listens && !changes_code) return SOFT;
  return judgement({ taint, listens, deallocates_all, deallocates, changes_code });
}

function isHarmless(text: string): boolean {
  if (!STARTS_WELL.test(text) || GOES_ON_BADLY.test(text)) return false;
  const body = text.includes('/*') ? text.replace(LEADING_COMMENT, '') : text;
  if (SUSPECT.test(body)) return false;
  for (let at = body.indexOf('('); at >= 0; at = body.indexOf('(', at + 1)) {
    if (!isPlainBefore(body, at)) return false;
  }
  return true;
}

/** Whether what stands before a parenthesis makes it no call, or a call that is known. */
function isPlainBefore(text: string, at: number): boolean {
  let end = at;
  while (end > 0 && SPACE.test(text[end - 1]!)) end--;
  let start = end;
  while (start > 0 && WORD.test(text[start - 1]!)) start--;
  if (start < end) return PLAIN_WORDS.has(text.slice(start, end).toLowerCase());
  return end === 0 || OPERATOR.test(text[end - 1]!);
}
