/**
 * The `options` start-up parameter: command-line switches for the server, among which a client names the endpoint when
 * its library sends no host name in TLS.
 */

export interface StartupOptions {
  /** The endpoint named by exactly one `endpoint=` or `project=` token; several are as good as none. */
  readonly endpoint: string | undefined;
  /** Everything else, as written, for the server; empty when nothing is left. */
  readonly forwarded: string;
}

// Postgres splits at isspace(); a backslash takes the next character as it is.
const TOKEN = /(?:\\[\s\S]|[^ \t\n\v\f\r\\]|\\$)+/g;
const ENDPOINT_TOKEN = /^(?:endpoint|project)=([\s\S]*)$/;

export function parseStartupOptions(options: string): StartupOptions {
  const named: string[] = [];
  const kept: string[] = [];
  for (const token of options.match(TOKEN) ?? []) {
    const match = ENDPOINT_TOKEN.exec(token.replace(/\\([\s\S]?)/g, '$1'));
    if (match) named.push(match[1]!);
    else kept.push(token);
  }
  return { endpoint: named.length === 1 ? named[0] : undefined, forwarded: kept.join(' ') };
}
