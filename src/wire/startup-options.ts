/**
 * The `options` start-up parameter: command-line switches for the server, among which a client names the endpoint when
 * its library sends no host name in TLS, and says what else it wants of the platform.
 */

export interface StartupOptions {
  /** The endpoint named by exactly one `endpoint=` or `project=` token; several are as good as none. */
  readonly endpoint: string | undefined;
  /** What `neon_<key>:<value>` tokens ask of the platform, as `[key, value]`; never for the server. */
  readonly platform: readonly (readonly [key: string, value: string])[];
  /** Everything else, as written, for the server; empty when nothing is left. */
  readonly forwarded: string;
}

// Postgres splits at isspace(); a backslash takes the next character as it is.
const TOKEN = /(?:\\[\s\S]|[^ \t\n\v\f\r\\]|\\$)+/g;
const ENDPOINT_TOKEN = /^(?:endpoint|project)=([\s\S]*)$/;
const PLATFORM_TOKEN = /^neon_(\w+):([\s\S]*)$/;

export function parseStartupOptions(options: string): StartupOptions {
  const named: string[] = [];
  const platform: [string, string][] = [];
  const kept: string[] = [];
  for (const token of options.match(TOKEN) ?? []) {
    const plain = token.replace(/\\([\s\S]?)/g, '$1');
    const endpoint = ENDPOINT_TOKEN.exec(plain);
    const wish = PLATFORM_TOKEN.exec(plain);
    if (endpoint) named.push(endpoint[1]!);
    else if (wish) platform.push([wish[1]!, wish[2]!]);
    else kept.push(token);
  }
  return { endpoint: named.length === 1 ? named[0] : undefined, platform, forwarded: kept.join(' ') };
}
