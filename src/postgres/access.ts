import { userInfo } from 'node:os';

/** The superuser that only the platform is; it has no password. */
export const PLATFORM_ROLE = 'cloud_admin';
/** What read replicas stream as; it can do nothing else. */
export const REPLICATION_ROLE = 'coppice_replica';
/** The group that every role made through the API belongs to; nobody logs in as it. */
export const CUSTOMER_GROUP = 'neon_superuser';
/** Reads schemas for the platform; it has no password and no rights but to look. See `ensureSchemaReader`. */
export const SCHEMA_READER = 'coppice_schema_reader';
/** The superuser as which operators of other systems work on what is exported; it has no password. See `ensureExportRole`. */
export const EXPORT_ROLE = 'postgres';

const MAP = 'coppice';

/**
 * Who may enter a compute, over its Unix socket only: the platform by the user its process runs under, everyone else
 * by SCRAM. Never `trust`: it lets in a role whose VALID UNTIL has passed. The first line that matches decides, so
 * the platform's role cannot be entered with a password.
 *
 * @param platformUsers roles that the platform enters as, too, and nobody else can enter: for servers that nobody reaches
 * @param alone nobody else may enter, with whatever password: not even what runs in the server itself, by way of its socket
 */
export function pgHba(platformUsers: readonly string[] = [], { alone = false }: { alone?: boolean } = {}): string {
  const method = alone ? 'reject' : 'scram-sha-256';
  return [
    `local all         ${PLATFORM_ROLE} peer map=${MAP}`,
    `local replication ${PLATFORM_ROLE} peer map=${MAP}`,
    `local all         ${SCHEMA_READER} peer map=${MAP}`,
    ...platformUsers.map((name) => `local all ${quoteName(name)} peer map=${MAP}`),
    `local all         all ${method}`,
    `local replication all ${method}`,
    '',
  ].join('\n');
}

/** Which user of this machine is the platform's role, and may enter as which others. */
export function pgIdent(user: string = userInfo().username, platformUsers: readonly string[] = []): string {
  if (/["\n]/.test(user)) throw new Error(`the user name ${JSON.stringify(user)} cannot stand in pg_ident.conf`);
  return [PLATFORM_ROLE, SCHEMA_READER, ...platformUsers]
    .map((role) => `${MAP} "${user}" ${quoteName(role)}\n`)
    .join('');
}

/** A name as it stands in those files; quoted, so that none is taken for a keyword, a group or a pattern. */
function quoteName(name: string): string {
  if (/[\n\r]/.test(name)) throw new Error(`the role name ${JSON.stringify(name)} cannot stand in pg_hba.conf`);
  return `"${name.replaceAll('"', '""')}"`;
}
