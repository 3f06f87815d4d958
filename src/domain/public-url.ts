import type { Settings } from './settings.ts';

/** Where people reach the API and the console in a browser, as an origin: `http://localhost:7432`. */
export function publicUrl({
  public_url,
  domain,
  api_port,
}: Pick<Settings, 'public_url' | 'domain' | 'api_port'>): string {
  return new URL(public_url ?? `http://${domain}:${api_port}`).origin;
}
