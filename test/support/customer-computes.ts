import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { createVerifier, formatVerifier } from '../../src/domain/scram-verifier.ts';
import type { ComputeSpec } from '../../src/drivers/compute/contract.ts';
import { createProcessDriver, type ProcessDriver } from '../../src/drivers/compute/process/driver.ts';
import { pgHba, pgIdent } from '../../src/postgres/access.ts';
import { applyRolesAndDatabases } from '../../src/postgres/apply-config.ts';
import { giveIdentity } from '../../src/postgres/control-file.ts';
import { ensureDistributions, newestDistribution } from '../../src/postgres/distributions.ts';
import { type OpenSession, openSession } from '../../src/postgres/session.ts';
import { postgresqlConf } from '../../src/postgres/settings.ts';
import { fillTemplate, TEMPLATE_DATABASE, TEMPLATE_ROLE } from '../../src/postgres/template.ts';

/** Each compute has a uid of its own, as each project has, and shares it with no other test that runs now. */
const FIRST_UID = 990_000 + (process.pid % 1000) * 10;

/** A compute as a customer gets it: our distribution, template, settings and driver, under a uid of its own. */
export interface CustomerCompute {
  readonly spec: ComputeSpec;
  readonly password: string;
  /** Where its socket is; closed to everyone but its uid and root. */
  readonly socketDirectory: string;
  /** The platform's sessions. */
  readonly open: OpenSession;
  /** A connection as a role made through the API, by password. */
  connect(options?: { user?: string; password?: string; database?: string }): Promise<Customer>;
}

export type Customer = pg.Client & AsyncDisposable;

export interface CustomerComputes {
  readonly directory: string;
  readonly driver: ProcessDriver;
  start(major: number): Promise<CustomerCompute>;
  [Symbol.asyncDispose](): Promise<void>;
}

export async function openCustomerComputes(): Promise<CustomerComputes> {
  const directory = await mkdtemp(join(tmpdir(), 'cc-'));
  await chmod(directory, 0o711);
  const distributions = await ensureDistributions(directory);
  const driver = createProcessDriver({ stateDir: join(directory, 'state'), runDir: join(directory, 'run') });
  let started = 0;
  async function start(major: number): Promise<CustomerCompute> {
    const distribution = newestDistribution(distributions, major)!;
    const id = `ep-${process.pid}-${++started}`;
    const data_directory = join(directory, id);
    const uid = FIRST_UID + started;
    const owner = process.getuid?.() === 0 ? { uid, gid: uid } : undefined;
    await mkdir(data_directory, { mode: 0o700 });
    await fillTemplate(distribution, data_directory, owner);
    await giveIdentity(data_directory);
    const range = { min_cu: 0.25, max_cu: 0.25 };
    const files = {
      'postgresql.conf': postgresqlConf({ major, range, logical_replication: true }),
      'pg_hba.conf': pgHba(),
      'pg_ident.conf': pgIdent(),
    };
    const spec = { id, distribution, data_directory, owner, files, size: 0.25 };
    const ref = await driver.ensureRunning(spec);
    const open: OpenSession = (database) => openSession(() => driver.dial(ref), { database });
    const password = `of-${id}`;
    const verifier = formatVerifier(await createVerifier(password));
    const owned = { name: TEMPLATE_ROLE, origin: 'api', verifier, can_login: true, deleted: false } as const;
    const database = { id: 1, name: TEMPLATE_DATABASE, owner_name: TEMPLATE_ROLE, applied_name: null, deleted: false };
    await applyRolesAndDatabases(open, { roles: [owned], databases: [database] });
    const host = driver.socketDirectory(id);
    const connect = async (options = {}): Promise<Customer> => {
      const client = new pg.Client({ host, user: TEMPLATE_ROLE, password, database: TEMPLATE_DATABASE, ...options });
      client.on('error', () => undefined);
      await client.connect();
      return Object.assign(client, { [Symbol.asyncDispose]: () => client.end().catch(() => undefined) });
    };
    return { spec, password, socketDirectory: host, open, connect };
  }
  return {
    directory,
    driver,
    start,
    async [Symbol.asyncDispose]() {
      for (let number = 1; number <= started; number++) {
        await driver.ensureRemoved({ driver: driver.name, id: `ep-${process.pid}-${number}` });
      }
      await rm(directory, { recursive: true, force: true });
    },
  };
}
