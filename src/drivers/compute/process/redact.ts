/** Longer constants are not passwords; the bound keeps a stray quote from hiding the rest of a log. */
const CONSTANT = String.raw`(?:[^'\\]|''|\\.){0,1024}`;

/**
 * Secrets by the shapes they have in a server's log. Settings keep statements out of it, but an error may quote what a
 * client sent, and a connection string may stand in a setting or a subscription.
 */
const SHAPES: readonly [RegExp, string][] = [
  [/SCRAM-SHA-256\$[^\s'"]+/gi, 'SCRAM-SHA-256$[hidden]'],
  [/\bmd5[0-9a-f]{32}\b/gi, 'md5[hidden]'],
  // SQL, with any kind of string constant: PASSWORD '...', E'...', $tag$...$tag$.
  [new RegExp(String.raw`\b(password\s+)(?:e|u&)?'${CONSTANT}'?`, 'gi'), "$1'[hidden]'"],
  [/\b(password\s+)\$(\w*)\$[\s\S]{0,1024}?\$\2\$/gi, "$1'[hidden]'"],
  // The forms of libpq: postgres://user:password@host, and password=... as in a string or in SQL's doubled quotes.
  [/\b([a-z][a-z0-9+.-]{1,30}:\/\/[^\s:/@'"]{0,255}):[^\s@'"]{1,1024}@/gi, '$1:[hidden]@'],
  [/\b((?:ssl)?password\s*=\s*)(?:''[^']{0,1024}''|[^\s'"&,;)]+)/gi, '$1[hidden]'],
  [new RegExp(String.raw`\b((?:ssl)?password\s*=\s*)(?:'${CONSTANT}'|"[^"]{0,1024}")`, 'gi'), '$1[hidden]'],
  [/\b(napi|npg)_[A-Za-z0-9]{8,}/g, '$1_[hidden]'],
  [/\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}/gi, '$1 [hidden]'],
  [/\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*/g, '[hidden token]'],
];

/** Text of a server's log with every recognised secret replaced by `[hidden]`. */
export function redact(text: string): string {
  return SHAPES.reduce((hidden, [shape, replacement]) => hidden.replace(shape, replacement), text);
}
