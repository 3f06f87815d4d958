import { userInfo } from 'node:os';

/** The superuser that only the platform is; it has no password. */
export const PLATFORM_ROLE = 'cloud_admin';
/** The group that every role made through the API belongs to; nobody logs in as it. */
export const CUSTOMER_GROUP = 'neon_superuser';

const MAP = 'coppice';

/**
 * Who may enter a compute, over its Unix socket only: the platform by the user its process runs under, everyone else
 * by SCRAM. Never `trust`: it lets in a role whose VALID UNTIL has passed. The first line that matches decides, so
 * the platform's role cannot be entered with a password.
 */
export function pgHba(): string {
  return [
    `local all         ${PLATFORM_ROLE} peer map=${MAP}`,
    `local replication ${PLATFORM_ROLE} peer map=${MAP}`,
    'local all         all scram-sha-256',
    'local replication all scram-sha-256',
    '',
  ].join('\n');
}

/** Which user of this machine is the platform's role. */
export function pgIdent(user: string = userInfo().username): string {
  if (/["\n]/.test(user)) throw new Error(`the user name ${JSON.stringify(user)} cannot stand in pg_ident.conf`);
  return `${MAP} "${user}" ${PLATFORM_ROLE}\n`;
}
