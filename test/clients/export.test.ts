import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { connect, query } from '../support/customer.ts';
import { createLiveProject, type LiveProject } from '../support/live-project.ts';
import { makeDirectoryTarget, makeS3Target, type ObjectTarget } from '../support/object-target.ts';
import { type Cluster, type Nursery, openNursery } from '../support/postgres.ts';
import { hasS3 } from '../support/s3-server.ts';
import { startStockServer } from '../support/stock-postgres.ts';
import { until } from '../support/until.ts';

const execute = promisify(execFile);
const COPPICE = fileURLToPath(new URL('../../bin/coppice.ts', import.meta.url));

/** How whoever does not know Coppice gets at an export. */
interface Restorer {
  readonly name: string;
  makeTarget(): Promise<ObjectTarget>;
  /** What is given to `coppice export`. */
  place(target: ObjectTarget): string;
  /** Ids of the backups of a server. */
  list(target: ObjectTarget, server: string): Promise<string[]>;
  unpack(target: ObjectTarget, server: string, backup: string, directory: string): Promise<void>;
  restoreCommand(target: ObjectTarget, server: string): string;
}

/** What anybody has. */
const byHand: Restorer = {
  name: 'tar and cp',
  makeTarget: makeDirectoryTarget,
  place: ({ path }) => path('').replace(/\/$/, ''),
  list: async ({ path }, server) => {
    const { stdout } = await execute('grep', ['-rl', '^status=DONE$', path(`${server}/base`)]);
    return stdout
      .trim()
      .split('\n')
      .map((file) => file.split('/').at(-2)!)
      .sort();
  },
  unpack: async ({ path }, server, backup, directory) => {
    // The place belongs to whoever runs Coppice.
    await execute('chmod', ['-R', 'a+rX', path('')]);
    await execute('tar', ['-xf', path(`${server}/base/${backup}/data.tar`), '-C', directory]);
  },
  restoreCommand: ({ path }, server) => `cp ${path(`${server}/wals`)}/$(echo %f | cut -c 1-16)/%f %p`,
};

const barman = (tool: string, target: ObjectTarget, ...args: string[]) => [
  `barman-cloud-${tool}`,
  ...['--endpoint-url', target.server!.endpoint, `s3://${target.server!.bucket}/exports`, ...args],
];

async function runBarman(tool: string, target: ObjectTarget, ...args: string[]): Promise<string> {
  const [command, ...words] = barman(tool, target, ...args);
  const { stdout } = await execute(command!, words, { env: { PATH: process.env.PATH, ...target.env } });
  return stdout;
}

/** What CloudNativePG runs. */
const byBarman: Restorer = {
  name: "barman's cloud tools",
  makeTarget: makeS3Target,
  place: ({ server }) => `s3://${server!.bucket}/exports`,
  list: async (target, server) => {
    const { backups_list } = JSON.parse(await runBarman('backup-list', target, '--format', 'json', server));
    return backups_list.map(({ backup_id }: { backup_id: string }) => backup_id);
  },
  unpack: async (target, server, backup, directory) => {
    await runBarman('restore', target, server, backup, directory);
  },
  restoreCommand: (target, server) => [...barman('wal-restore', target, server), '%f', '%p'].join(' '),
};

const hasBarman = await execute('which', ['barman-cloud-restore']).then(
  () => true,
  () => false,
);
if (!hasBarman) process.stderr.write('exports are not restored with barman: barman-cloud-restore is not here\n');
const RESTORERS = [byHand, ...(hasS3 && hasBarman ? [byBarman] : [])];

for (const restorer of RESTORERS) {
  describe(`an exported branch, restored with ${restorer.name}`, { timeout: 600_000 }, () => {
    let coppice: TestCoppice;
    let target: ObjectTarget;
    let nursery: Nursery;
    let cluster: Cluster;
    let project: LiveProject;
    let directory: string;

    before(async () => {
      target = await restorer.makeTarget();
      coppice = await startCoppice();
      project = await createLiveProject(coppice);
      nursery = await openNursery();
      cluster = await nursery.plant(17);
      directory = await mkdtemp(join(tmpdir(), 'restored-'));
      await chmod(directory, 0o755);
    });
    after(async () => {
      await coppice?.stop();
      if (coppice) await removeDataDirectory(coppice.data_directory);
      await nursery?.[Symbol.asyncDispose]();
      await target?.remove();
      if (directory) await rm(directory, { recursive: true, force: true });
    });

    const words = (...args: string[]) => [COPPICE, 'export', project.id, restorer.place(target), ...args];
    const environment = () => ({
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      COPPICE_DATA_DIR: coppice.data_directory,
      ...target.env,
    });
    const runExport = (...args: string[]) => execute(process.execPath, words(...args), { env: environment() });
    const startExport = () => spawn(process.execPath, words(), { env: environment(), stdio: 'ignore' });

    /** Asks a stock server on the newest backup of that name. */
    const restored = async (server: string, uri: string, ask: (uri: string) => Promise<void>) => {
      const backup = (await restorer.list(target, server)).at(-1)!;
      const path = join(directory, `${server}-${backup}`);
      await mkdir(path);
      await restorer.unpack(target, server, backup, path);
      const stock = await startStockServer(cluster, {
        directory: path,
        restore_command: restorer.restoreCommand(target, server),
        env: { PATH: process.env.PATH, HOME: '/nonexistent', ...target.env },
      });
      try {
        const { username, password, pathname } = new URL(uri);
        await ask(`postgres://${username}:${password}@127.0.0.1:${stock.port}${pathname}`);
      } finally {
        await stock.stop();
      }
    };

    it('has everything that was committed before, without a hole, and takes writes', async () => {
      await query(project.uri, 'create table lines (n int primary key)');
      await query(project.uri, 'insert into lines select generate_series(1, 50000)');
      const writer = await startWriter(project.uri, 50_001);
      const { stdout } = await runExport();
      const last = await writer.stop();
      assert.match(stdout, new RegExp(`^server +${project.id}$`, 'm'));
      await restored(project.id, project.uri, async (uri) => {
        const [{ count, max }] = await query(uri, 'select count(*)::int as count, max(n) as max from lines');
        assert.ok(max >= writer.before_export && max <= last, `${max}`);
        assert.equal(count, max);
        await query(uri, 'insert into lines values (0)');
        const [{ standby, superuser }] = await query(
          uri,
          `select pg_is_in_recovery() as standby,
             exists (select from pg_roles where rolname = 'postgres' and rolsuper and rolcanlogin) as superuser`,
        );
        assert.deepEqual({ standby, superuser }, { standby: false, superuser: true });
      });
    });

    // The rest is the same whoever reads it, and starting barman for each segment takes its time.
    if (restorer !== byHand) return;

    it('is exported again under the same name, asleep, with what was written since', async () => {
      await query(project.uri, 'insert into lines values (-1)');
      await project.suspend();
      // What an export makes in the branch is nobody's who uses it.
      const { roles } = await coppice.must('GET', `${project.branch_path}/roles`);
      assert.deepEqual(
        roles.map(({ name }: { name: string }) => name),
        [project.role],
      );
      const before_again = await restorer.list(target, project.id);
      await runExport();
      assert.equal((await restorer.list(target, project.id)).length, before_again.length + 1);
      await restored(project.id, project.uri, async (uri) => {
        assert.deepEqual(await query(uri, 'select n from lines where n = -1'), [{ n: -1 }]);
      });
    });

    it('leaves nothing behind when the command is killed', async () => {
      const exports = async () => (await coppice.ownDatabase('select base from coppice.exports')).rows;
      const child = startExport();
      let base: string | undefined;
      const hasBase = async () => {
        base ??= (await exports())[0]?.base?.volume.id;
        return base !== undefined;
      };
      await until(hasBase, { what: 'the base', timeout_ms: 120_000 });
      const path = join(coppice.data_directory, 'storage/volumes', base!);
      assert.equal(existsSync(path), true);
      child.kill('SIGKILL');
      await until(async () => (await exports()).length === 0, { what: 'the end of the export', timeout_ms: 120_000 });
      assert.equal(existsSync(path), false);
    });

    it('that was killed before it was whole is removed by the next one, and one at a time writes there', async () => {
      const archives = async () => {
        const found: string[] = [];
        for await (const { key } of target.objects.list(`${project.id}/base/`)) if (/tar$/.test(key)) found.push(key);
        return found;
      };
      const whole = await archives();
      const killed = await execute(process.execPath, words(), {
        env: { ...environment(), COPPICE_TEST_STOP_POINT: 'export:archived' },
      }).catch((error) => error);
      assert.equal(killed.signal, 'SIGKILL');
      assert.equal((await archives()).length, whole.length + 1);
      assert.equal((await restorer.list(target, project.id)).length, whole.length);

      const ends = await Promise.allSettled([runExport(), runExport()]);
      for (const end of ends) {
        // Where one was over before the other began, both were made.
        if (end.status === 'rejected') assert.match(end.reason.stderr, /another export writes to .* wait for its end/);
      }
      const made = ends.filter(({ status }) => status === 'fulfilled').length;
      assert.ok(made >= 1);
      assert.equal((await archives()).length, whole.length + made);
      assert.deepEqual((await archives()).slice(0, whole.length), whole, 'those that were whole stay');
    });

    it('does not mix with the log of another branch, which has the same file names', async () => {
      const made = await coppice.must('POST', `${project.path}/branches`, {
        branch: { name: 'other' },
        endpoints: [{ type: 'read_write' }],
      });
      await coppice.settled(project.id);
      const uri = made.connection_uris[0].connection_uri;
      await query(uri, 'insert into lines values (-2)');
      await assert.rejects(
        runExport('--branch', 'other', '--server-name', project.id),
        /choose another with --server-name/,
      );
      await runExport('--branch', 'other', '--server-name', 'another.name');
      await restored('another.name', uri, async (there) => {
        assert.deepEqual(await query(there, 'select n from lines where n < 0 order by n'), [{ n: -2 }, { n: -1 }]);
      });
    });
  });
}

/** Adds a line after the other, until it is told to stop; then it tells the last. */
async function startWriter(uri: string, first: number): Promise<{ before_export: number; stop(): Promise<number> }> {
  const client = await connect(uri);
  let next = first;
  let going = true;
  const write = async () => {
    for (; going; next++) await client.query('insert into lines values ($1)', [next]);
  };
  const written = write();
  await until(() => next > first, { what: 'the first line' });
  return {
    before_export: next - 1,
    stop: async () => {
      going = false;
      await written;
      await client.end();
      return next - 1;
    },
  };
}
