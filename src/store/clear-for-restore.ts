import pg from 'pg';

/** The database is somebody's, and is left as it is. */
export class StoreInUse extends Error {
  override name = 'StoreInUse';
}

/**
 * Our database is empty and says by `mark` which restore is going to fill it; what an earlier attempt of that very restore
 * left is gone. Throws StoreInUse when it holds anything else.
 */
export async function clearForRestore(pool: pg.Pool, mark: string): Promise<void> {
  await inOneSession(pool, async (client) => {
    const { rows } = await client.query<{ mark: string | null }>(
      "select obj_description(oid, 'pg_namespace') as mark from pg_namespace where nspname = 'coppice'",
    );
    if (rows[0] && rows[0].mark !== mark) {
      throw new StoreInUse('the database holds an installation of Coppice: a restore needs an empty one');
    }
    if (rows[0]) await client.query('drop schema if exists coppice_auth cascade');
    if (rows[0]) await client.query('drop schema coppice cascade');
    if (rows[0]) await client.query('drop schema if exists graphile_worker cascade');
    await client.query('create schema coppice');
    await client.query(`comment on schema coppice is ${pg.escapeLiteral(mark)}`);
  });
}

/** The database is an installation's from now on. */
export async function forgetRestore(pool: pg.Pool): Promise<void> {
  await pool.query('comment on schema coppice is null');
}

async function inOneSession(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<void>): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query('begin');
    await work(client);
    await client.query('commit');
  } catch (error) {
    await client.query('rollback').catch(() => undefined);
    throw error;
  } finally {
    client.release(true);
  }
}
