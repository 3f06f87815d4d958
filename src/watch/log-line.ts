const LEVELS: Readonly<Record<number, string>> = {
  10: 'trace',
  20: 'debug',
  30: 'info ',
  40: 'warn ',
  50: 'error',
  60: 'fatal',
};
const NOT_FIELDS = new Set(['level', 'time', 'msg', 'err']);

/** One JSON log line as a person reads it: local time, level, message, fields; an error's stack on the lines below. */
export function humanLogLine(json: string): string {
  let line: Record<string, unknown>;
  try {
    line = JSON.parse(json) as Record<string, unknown>;
  } catch {
    return json;
  }
  const time = new Date(Number(line.time)).toTimeString().slice(0, 8);
  const fields = Object.entries(line)
    .filter(([name]) => !NOT_FIELDS.has(name))
    .map(([name, value]) => ` ${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`);
  const { stack, message } = (line.err ?? {}) as { stack?: string; message?: string };
  const error = stack ?? message;
  const below = error === undefined ? '' : `${error.replace(/^/gm, '    ')}\n`;
  return `${time} ${LEVELS[Number(line.level)] ?? line.level} ${line.msg}${fields.join('')}\n${below}`;
}
