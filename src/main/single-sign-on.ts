import { readFile } from 'node:fs/promises';
import type { Settings } from '../domain/settings.ts';
import type { SingleSignOn } from '../domain/single-sign-on.ts';
import { StartError } from './start-error.ts';

/** From the settings; undefined without an issuer. Throws StartError when the file of the secret cannot be read. */
export async function singleSignOn(settings: Settings): Promise<SingleSignOn | undefined> {
  const { oidc_issuer, oidc_client_id, oidc_client_secret, oidc_client_secret_file, oidc_email_domains } = settings;
  if (!oidc_issuer || !oidc_client_id) return undefined;
  const client_secret = oidc_client_secret ?? (await readSecret(oidc_client_secret_file!));
  return { issuer: oidc_issuer, client_id: oidc_client_id, client_secret, email_domains: oidc_email_domains ?? [] };
}

async function readSecret(file: string): Promise<string> {
  const text = await readFile(file, 'utf8').catch(({ code }: NodeJS.ErrnoException) => {
    throw new StartError(`the file of the client's secret ${file} cannot be read (${code})`);
  });
  return text.trim();
}
