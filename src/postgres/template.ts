import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { parseLsn } from '../domain/lsn.ts';
import { CUSTOMER_GROUP } from './access.ts';
import { readControlFile } from './control-file.ts';
import type { Distribution } from './distributions.ts';
import { chownTree, initCluster, type Owner } from './initdb.ts';
import { withPrivateServer } from './private-server.ts';
import { createApiRole } from './roles.ts';
import type { Session } from './session.ts';
import { walSegmentName } from './wal-segment.ts';

/** What a template holds besides the platform's own; a new project with other names renames them. */
export const TEMPLATE_DATABASE = 'neondb';
export const TEMPLATE_ROLE = 'neondb_owner';

/**
 * Fills an empty directory with a stopped data directory that new projects are cloned from: roles, grants, and one
 * database with its owner, who has no password yet. Nothing is made durable; the storage driver does that.
 * @param owner who owns the files in the end; undefined: whoever owns the directory now
 */
export async function fillTemplate(distribution: Distribution, path: string, owner?: Owner): Promise<void> {
  const runner = await initCluster(distribution, path);
  await withPrivateServer(
    { distribution, data_directory: path, owner: runner, settings: { fsync: 'off', wal_recycle: 'off' } },
    async (open) => {
      {
        await using session = await open('template1');
        await createGroup(session, distribution.major);
        await grantInDatabase(session, distribution.major);
      }
      {
        await using session = await open('postgres');
        await grantInDatabase(session, distribution.major);
        await createApiRole(session, TEMPLATE_ROLE);
        await session.query(`CREATE DATABASE ${TEMPLATE_DATABASE} OWNER ${TEMPLATE_ROLE} STRATEGY file_copy`);
        await session.query(`GRANT ALL ON DATABASE ${TEMPLATE_DATABASE} TO ${CUSTOMER_GROUP}`);
      }
    },
  );
  // A compute's configuration is given to it from outside its data directory.
  for (const name of ['postgresql.conf', 'pg_hba.conf', 'pg_ident.conf', 'postmaster.opts']) {
    await rm(join(path, name), { force: true });
  }
  await removeSegmentsAhead(path);
  if (runner) await chownTree(path, owner ?? { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 });
}

/** The public platform's group role. Not on 15: there CREATEROLE lets a role grant itself the server's own rights. */
async function createGroup(session: Session, major: number): Promise<void> {
  const attributes = `NOLOGIN CREATEDB REPLICATION BYPASSRLS ${major >= 16 ? 'CREATEROLE' : 'NOCREATEROLE'}`;
  await session.query(`CREATE ROLE ${CUSTOMER_GROUP} ${attributes} IN ROLE pg_read_all_data, pg_write_all_data`);
  await session.query(`GRANT pg_monitor, pg_signal_backend TO ${CUSTOMER_GROUP} WITH ADMIN OPTION`);
  // On 18 whoever may write a connection string can have libpq append to the server's files (`sslkeylogfile`).
  if (major === 16 || major === 17) await session.query(`GRANT pg_create_subscription TO ${CUSTOMER_GROUP}`);
}

/** Grants that live in a database; template1 hands them to every database made later. */
async function grantInDatabase(session: Session, major: number): Promise<void> {
  const functions = ['pg_show_replication_origin_status()', 'pg_export_snapshot()'];
  if (major >= 16) functions.push('pg_log_standby_snapshot()');
  await session.query(`GRANT EXECUTE ON FUNCTION ${functions.join(', ')} TO ${CUSTOMER_GROUP}`);
  for (const kind of ['TABLES', 'SEQUENCES']) {
    await session.query(
      `ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON ${kind} TO ${CUSTOMER_GROUP} WITH GRANT OPTION`,
    );
  }
}

/** initdb leaves WAL segments made ahead, 7 MB of zeros that every copy would carry. */
async function removeSegmentsAhead(path: string): Promise<void> {
  const { checkpointLsn, timeline, walSegmentBytes } = await readControlFile(path);
  const current = walSegmentName(timeline, parseLsn(checkpointLsn), walSegmentBytes);
  for (const name of await readdir(join(path, 'pg_wal'))) {
    if (/^[0-9A-F]{24}$/.test(name) && name > current) await rm(join(path, 'pg_wal', name));
  }
}
