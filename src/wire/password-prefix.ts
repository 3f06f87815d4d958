/** A password that carries the endpoint, for clients that can give it no other way. */
export interface PrefixedPassword {
  readonly endpoint: string;
  readonly password: string;
}

const PREFIX = /^(?:endpoint|project)=/;

/**
 * Reads `endpoint=<id>;<password>` or `endpoint=<id>$<password>`; undefined for anything else. The first `;` separates,
 * else the first `$`; the password may hold more of either.
 */
export function parsePrefixedPassword(text: string): PrefixedPassword | undefined {
  const prefix = PREFIX.exec(text);
  if (!prefix) return undefined;
  const rest = text.slice(prefix[0].length);
  const semicolon = rest.indexOf(';');
  const separator = semicolon >= 0 ? semicolon : rest.indexOf('$');
  if (separator < 0) return undefined;
  return { endpoint: rest.slice(0, separator), password: rest.slice(separator + 1) };
}
