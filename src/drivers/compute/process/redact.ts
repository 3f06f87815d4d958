/**
 * Secrets by the shapes they have in a server's log. Settings keep statements out of it, but an error may quote what a
 * client sent, and a connection string may stand in a setting or a subscription.
 */
const SHAPES: readonly [RegExp, string][] = [
  [/SCRAM-SHA-256\$[^\s'"]+/gi, 'SCRAM-SHA-256$[hidden]'],
  [/\bmd5[0-9a-f]{32}\b/gi, 'md5[hidden]'],
  // SQL, with any kind of string constant: PASSWORD '...', E'...', $tag$...$tag$.
  [/\b(password\s+)(?:e|u&)?'(?:[^'\\]|''|\\.)*'?/gi, "$1'[hidden]'"],
  [/\b(password\s+)\$(\w*)\$.*?(?:\$\2\$|$)/gi, "$1'[hidden]'"],
  // The forms of libpq: postgres://user:password@host and password=... in both spellings.
  [/\b([a-z][a-z0-9+.-]{1,30}:\/\/[^\s:/@'"]{0,255}):[^\s@'"]{1,1024}@/gi, '$1:[hidden]@'],
  [/\b((?:ssl)?password\s*=\s*)(?:'(?:[^'\\]|\\.|'')*'?|"[^"]*"?|[^\s'"&,;)]+)/gi, '$1[hidden]'],
  [/\b(napi|npg)_[A-Za-z0-9]{8,}/g, '$1_[hidden]'],
  [/\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}/gi, '$1 [hidden]'],
  [/\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*/g, '[hidden token]'],
];

/** A line of a server's log with every recognised secret replaced by `[hidden]`. */
export function redactLine(line: string): string {
  return SHAPES.reduce((text, [shape, replacement]) => text.replace(shape, replacement), line);
}
