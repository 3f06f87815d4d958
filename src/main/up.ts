import { once } from 'node:events';
import { connectionHost } from '../domain/connection-string.ts';
import type { Settings } from '../domain/settings.ts';
import { createLogger } from '../watch/logger.ts';
import { type Coppice, startCoppice } from './start.ts';
import { VERSION } from './version.ts';

/** Runs Coppice until it is told to stop by SIGTERM or SIGINT. A second signal ends it at once; nothing is lost then. */
export async function up(settings: Settings): Promise<void> {
  const started_at = Date.now();
  const logger = createLogger({ level: settings.log_level });
  // Where nobody looks on, standard error is the log alone, so that a program can read every line of it.
  const say = (text: string, indent: string) => {
    if (process.stderr.isTTY) process.stderr.write(`${indent}${text}\n`);
    else logger.info({ room: 'main' }, text);
  };
  const progress = (text: string) => say(text, '  ');
  say(`Coppice ${VERSION} starts on ${settings.data_dir}`, '');
  const stopped = Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')]);
  const coppice = await startCoppice(settings, { logger, progress });
  process.stdout.write(readyBlock(coppice, settings, Date.now() - started_at));
  const [signal] = await stopped;
  process.once('SIGTERM', () => process.exit(1)).once('SIGINT', () => process.exit(1));
  logger.info({ room: 'main' }, `stopping on ${signal}`);
  await coppice.stop();
}

/** What the person at the terminal needs to know, once. */
function readyBlock(coppice: Coppice, settings: Settings, took_ms: number): string {
  const { storage, isolated_users, limits_enforced, domain_resolves } = coppice;
  const rows: [string, string][] = [];
  if (coppice.api_url) rows.push(['API', `${coppice.api_url}/api/v2`]);
  if (coppice.gateway_address) rows.push(['Postgres', coppice.gateway_address]);
  rows.push(['key', settings.bootstrap_api_key ? 'the one in COPPICE_BOOTSTRAP_API_KEY' : 'npx coppice keys create']);
  if (coppice.api_url && coppice.first_login) {
    rows.push(['login', `npx coppice users reset --email ${coppice.first_login}`]);
  }
  rows.push(['data', `${coppice.data_directory} (${storage.driver.name})`]);
  rows.push([
    'trust',
    isolated_users
      ? 'every project runs under a user of its own'
      : 'not root: all projects run as this user and must trust each other',
  ]);
  if (!limits_enforced) rows.push(['limits', 'cgroups cannot be used: compute sizes are not enforced']);
  if (!storage.driver.capabilities.instant_clone) {
    rows.push(['branches', 'are full copies on this filesystem; npx coppice doctor says how to make them instant']);
  }
  if (!domain_resolves) {
    const host = connectionHost({ domain: settings.domain, pg_port: settings.pg_port, domain_resolves }, 'ep-');
    rows.push([
      'names',
      `*.${settings.domain} does not resolve here; connection strings name ${host} (npx coppice doctor)`,
    ]);
  }
  const lines = rows.map(([name, value]) => `  ${name.padEnd(9)} ${value}\n`);
  return `\nCoppice is ready after ${(took_ms / 1000).toFixed(1)} s\n${lines.join('')}\n`;
}
