import { pino } from 'pino';
import { hideSecrets } from './hide-secrets.ts';
import type { Log } from './log-fields.ts';
import { humanLogLine } from './log-line.ts';

export interface LoggerOptions {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  /** Where lines go; standard error unless given, since standard output belongs to what a command prints. */
  readonly stream?: { write(line: string): unknown; readonly isTTY?: boolean };
}

/** The program's log: a JSON object a line, or a plain line for a person when the stream is a terminal. */
export function createLogger({ level, stream = process.stderr }: LoggerOptions): Log {
  const write = stream.isTTY
    ? (line: string) => stream.write(humanLogLine(line))
    : (line: string) => stream.write(line);
  return pino({ level, base: null, hooks: { streamWrite: hideSecrets } }, { write });
}
