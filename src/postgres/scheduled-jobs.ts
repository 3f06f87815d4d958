import { withConnectionsAllowed } from './database-access.ts';
import type { OpenSession, Session } from './session.ts';

/**
 * The extension's own table: a customer can make one of that name, with triggers that would run as us, in a database
 * without the extension.
 */
const OWN_TABLE = `
  SELECT FROM pg_extension e
    JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
    JOIN pg_class c ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND c.relkind = 'r' AND c.relname = 'job'
    JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'cron'
    JOIN pg_roles owner ON owner.oid = c.relowner AND owner.rolsuper
   WHERE e.extname = 'pg_cron'`;

/** Turns off every job of pg_cron, in whichever database it keeps them. They stay, to be turned on again. */
export async function stopScheduledJobs(open: OpenSession, postgres: Session): Promise<void> {
  const available = await postgres.query("SELECT FROM pg_available_extensions WHERE name = 'pg_cron'");
  if (available.rowCount === 0) return;
  // A database whose dropping was broken off (connection limit -2) lets nobody in, and can only be dropped.
  const { rows } = await postgres.query<{ datname: string }>(
    "SELECT datname FROM pg_database WHERE datname <> 'template0' AND datconnlimit <> -2",
  );
  for (const { datname } of rows) {
    await withConnectionsAllowed(postgres, datname, async () => {
      await using session = await open(datname);
      const { rowCount } = await session.query(OWN_TABLE);
      if (rowCount === 0) return;
      // Its trigger tells pg_cron, which is not loaded here.
      await session.query('SET session_replication_role = replica');
      await session.query('UPDATE cron.job SET active = false WHERE active');
    });
  }
}
