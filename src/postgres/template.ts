import { execFile } from 'node:child_process';
import { chown, lchown, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CUSTOMER_GROUP, PLATFORM_ROLE } from './access.ts';
import type { Distribution } from './distributions.ts';
import { withPrivateServer } from './private-server.ts';
import { createApiRole } from './roles.ts';
import type { Session } from './session.ts';

const run = promisify(execFile);

/** What a template holds besides the platform's own; a new project with other names renames them. */
export const TEMPLATE_DATABASE = 'neondb';
export const TEMPLATE_ROLE = 'neondb_owner';

export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/**
 * Fills an empty directory with a stopped data directory that new projects are cloned from: roles, grants, and one
 * database with its owner, who has no password yet. Nothing is made durable; the storage driver does that.
 * @param owner who owns the files in the end; undefined: whoever owns the directory now
 */
export async function fillTemplate(distribution: Distribution, path: string, owner?: Owner): Promise<void> {
  const runner = await namedUser();
  if (runner) await chown(path, runner.uid, runner.gid);
  await run(join(distribution.root, 'bin/initdb'), initdbArguments(distribution.major, path), { ...runner, env: {} });
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
        await createApiRole(session, TEMPLATE_ROLE, { major: distribution.major });
        await session.query(`CREATE DATABASE ${TEMPLATE_DATABASE} OWNER ${TEMPLATE_ROLE} STRATEGY file_copy`);
        await session.query(`GRANT ALL ON DATABASE ${TEMPLATE_DATABASE} TO ${CUSTOMER_GROUP}`);
      }
    },
  );
  // A compute's configuration is given to it from outside its data directory.
  for (const name of ['postgresql.conf', 'pg_hba.conf', 'pg_ident.conf', 'postmaster.opts']) {
    await rm(join(path, name), { force: true });
  }
  if (runner) await chownTree(path, owner ?? { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 });
}

function initdbArguments(major: number, path: string): string[] {
  const locale = process.platform === 'darwin' ? 'C' : 'C.UTF-8';
  return [
    ...['-D', path, '-U', PLATFORM_ROLE, '--encoding=UTF8', `--locale=${locale}`, '--wal-segsize=1'],
    // The same order on every machine, and none that a change of the C library moves.
    ...(major >= 17 ? ['--locale-provider=builtin', '--builtin-locale=C.UTF-8'] : []),
    ...['--data-checksums', '--auth-local=peer', '--auth-host=scram-sha-256', '--no-sync', '--no-instructions'],
  ];
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

/** initdb wants a user with a name, and not root; undefined where we are not root and can only be ourselves. */
async function namedUser(): Promise<Owner | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const lines = (await readFile('/etc/passwd', 'utf8')).split('\n').map((line) => line.split(':'));
  const found = ['postgres', 'nobody'].map((name) => lines.find(([user]) => user === name)).find(Boolean);
  if (!found) throw new Error('initdb needs a user named postgres or nobody in /etc/passwd; please add one');
  return { uid: Number(found[2]), gid: Number(found[3]) };
}

async function chownTree(path: string, { uid, gid }: Owner): Promise<void> {
  for (const entry of await readdir(path, { withFileTypes: true, recursive: true })) {
    await lchown(join(entry.parentPath, entry.name), uid, gid);
  }
  await lchown(path, uid, gid);
}
