/**
 * Secrets recognised by their name or shape, wherever they stand in a line: a field may be nested, and a driver's error
 * may quote a connection string. The second line of defence; the first is not to log them. Replacements leave JSON whole.
 */
const SHAPES: readonly [RegExp, string][] = [
  // Fields of JSON, at any depth.
  [
    /"([a-z_-]*(?:password|passwd|secret|verifier|authorization|cookie|token|api_key|private_key)|key)":"(?:[^"\\]|\\.)*"/gi,
    '"$1":"[hidden]"',
  ],
  // The password of an address: postgres://user:password@host
  [/\b([a-z][a-z0-9+.-]{1,30}:\/\/[^\s:/@"'\\]{0,255}):[^\s/@"'\\]{1,1024}@/gi, '$1:[hidden]@'],
  // API keys and generated role passwords.
  [/\b(napi|npg)_[A-Za-z0-9]{8,}/g, '$1_[hidden]'],
  [/\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}/gi, '$1 [hidden]'],
  [/SCRAM-SHA-256\$\d+:[A-Za-z0-9+/=]+\$[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+/g, 'SCRAM-SHA-256$[hidden]'],
  // libpq's key-value form, and SQL.
  [/\b(password\s*=\s*)('(?:[^'"\\]|\\.)*'|[^\s'"\\,;&)}\]]+)/gi, '$1[hidden]'],
  [/\b(password\s+)'(?:[^'"\\]|\\.)*'/gi, '$1[hidden]'],
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[^"]*?(?:-----END [A-Z ]*PRIVATE KEY-----|(?=")|$)/g, '[hidden private key]'],
];

/** The text with every recognised secret replaced by `[hidden]`. */
export function hideSecrets(text: string): string {
  return SHAPES.reduce((hidden, [shape, replacement]) => hidden.replace(shape, replacement), text);
}
