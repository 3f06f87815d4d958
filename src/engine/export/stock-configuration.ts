import { quoteSetting } from '../../postgres/settings.ts';

/** What a server elsewhere is to start with: by the names of settings. */
export type StockSettings = Readonly<Record<string, string>>;

/**
 * The configuration files for a data directory that leaves Coppice, whose own lie outside of it: a server of any make
 * starts with them, and lets in who owns it and who has a password. Nothing of where it was is in them.
 */
export function stockConfiguration(settings: StockSettings): Map<string, string> {
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${quoteSetting(value)}\n`);
  return new Map([
    [
      'postgresql.conf',
      `# Of the branch that this was exported from. Memory and connections are for its new place to decide.\n${lines.join('')}`,
    ],
    [
      'pg_hba.conf',
      ['local all all peer', 'host all all 127.0.0.1/32 scram-sha-256', 'host all all ::1/128 scram-sha-256', ''].join(
        '\n',
      ),
    ],
    ['pg_ident.conf', ''],
  ]);
}
