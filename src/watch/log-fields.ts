/**
 * The one vocabulary of log lines. Every room says the same thing under the same name, so that the lines of one
 * request, operation or compute can be found together whoever wrote them.
 */
export interface LogFields {
  /** The part of the program that speaks: `api`, `engine`, `gateway`, `store`, `main`. */
  readonly room?: string;
  /** One HTTP request; the caller sees the same id in an error. */
  readonly request_id?: string;
  readonly method?: string;
  /** Without the query string. */
  readonly path?: string;
  readonly status?: number;
  readonly project_id?: string;
  readonly branch_id?: string;
  readonly timeline_id?: string;
  readonly endpoint_id?: string;
  readonly operation_id?: string;
  /** The operation's kind, or the chore's name. */
  readonly action?: string;
  /** Which attempt this is, from 1. */
  readonly attempt?: number;
  /** A client's role and database, as it named them. */
  readonly role?: string;
  readonly database?: string;
  readonly client_address?: string;
  readonly duration_ms?: number;
  /** Last lines of a compute's own log. */
  readonly log?: readonly string[];
  /** Id of what a chore worked on, whatever its kind. */
  readonly subject?: string;
  /** Why, in words, where nothing was thrown or only its message matters. */
  readonly reason?: string;
  /** What was thrown. Its message and stack are written, known secrets in them are not. */
  readonly err?: unknown;
}

type Write = (fields: LogFields, message: string) => void;

/** What a room needs of a logger. A message is one sentence without values; values are fields. */
export interface Log {
  readonly debug: Write;
  readonly info: Write;
  readonly warn: Write;
  readonly error: Write;
  /** A logger that adds the fields to each of its lines. */
  child(fields: LogFields): Log;
}
