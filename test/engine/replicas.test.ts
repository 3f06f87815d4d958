import assert from 'node:assert/strict';
import { readdir, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { type CustomerClient, connect, query, refusal } from '../support/customer.ts';
import { createLiveProject, dataDirectoryOf, type LiveProject, postmasterPid } from '../support/live-project.ts';
import { until } from '../support/until.ts';

/** A read_only endpoint of a branch. */
interface Replica {
  readonly id: string;
  readonly path: string;
  readonly uri: string;
  state(): Promise<string>;
}

describe('a read replica', { timeout: 600_000 }, () => {
  let coppice: TestCoppice;
  before(async () => {
    coppice = await startCoppice();
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
  });

  const replicaOf = (project: LiveProject, endpoint: { id: string }): Replica => {
    const path = `${project.path}/endpoints/${endpoint.id}`;
    return {
      id: endpoint.id,
      path,
      uri: project.uri.replaceAll(project.endpoint_id, endpoint.id),
      state: async () => (await coppice.must('GET', path)).endpoint.current_state,
    };
  };
  const createReplica = async (project: LiveProject, wanted: object = {}) => {
    const { endpoint } = await coppice.must('POST', `${project.path}/endpoints`, {
      endpoint: { branch_id: project.branch_id, type: 'read_only', ...wanted },
    });
    await coppice.settled(project.id);
    return replicaOf(project, endpoint);
  };
  const createPair = async (pg_version = 17) => {
    const default_endpoint_settings = { suspend_timeout_seconds: -1 };
    const project = await createLiveProject(coppice, { pg_version, default_endpoint_settings });
    await query(project.uri, 'create table notes (id int primary key)');
    return { project, replica: await createReplica(project) };
  };
  const suspend = async (project: LiveProject, { path }: { path: string }) => {
    await coppice.must('POST', `${path}/suspend`);
    await coppice.settled(project.id);
  };
  const write = (project: LiveProject, id: number) => query(project.uri, 'insert into notes values ($1)', [id]);
  const holds = async ({ uri }: Replica, id: number) =>
    (await query(uri, 'select from notes where id = $1', [id])).length === 1;
  const untilHeld = (replica: Replica, id: number) =>
    until(() => holds(replica, id), { what: `the replica to have note ${id}` });
  const volumes = () => readdir(join(coppice.data_directory, 'storage/volumes'));
  /** The pid of a server's child whose title holds a word. */
  const childOf = async (uri: string, word: string) => {
    const [row] = await query(uri, 'select pid from pg_stat_activity where backend_type = $1', [word]);
    return row?.pid as number | undefined;
  };

  for (const major of [16, 17, 18]) {
    it(`of Postgres ${major} streams, refuses to write, sleeps and wakes by itself, and reads while its primary sleeps`, async () => {
      const { project, replica } = await createPair(major);
      await write(project, 1);
      await untilHeld(replica, 1);
      const error = await query(replica.uri, 'insert into notes values (0)').catch((reason) => reason);
      assert.equal(error.code, '25006');

      await suspend(project, replica);
      assert.equal(await replica.state(), 'idle');
      assert.equal(await project.state(), 'active');
      await write(project, 2);
      assert.equal(await holds(replica, 2), true, 'what was committed while it slept');

      await write(project, 3);
      await project.suspend();
      assert.equal(await holds(replica, 3), true, 'what was committed before the primary slept');
      await suspend(project, replica);
      assert.equal(await holds(replica, 3), true, 'the same, woken beside a sleeping primary');
      assert.equal(await project.state(), 'idle', 'the primary is not woken');
      await write(project, 4);
      await untilHeld(replica, 4);
      await coppice.must('DELETE', project.path);
    });
  }

  describe('beside its primary', () => {
    let project: LiveProject;
    let replica: Replica;
    before(async () => {
      ({ project, replica } = await createPair());
    });

    it('is no activity of its primary, which sleeps though it streams', async () => {
      await untilHeldAfterWrite(10);
      await coppice.must('PATCH', project.endpoint_path, { endpoint: { suspend_timeout_seconds: 1 } });
      await project.untilState('idle');
      assert.equal(await replica.state(), 'active');
      await coppice.must('PATCH', project.endpoint_path, { endpoint: { suspend_timeout_seconds: -1 } });
    });

    it('cannot hold up a suspend with a receiver that is frozen, and is given what that has missed', async () => {
      await untilHeldAfterWrite(11);
      const receiver = await childOf(replica.uri, 'walreceiver');
      assert.ok(receiver, 'it streams');
      process.kill(receiver, 'SIGSTOP');
      try {
        await write(project, 12);
        await project.suspend();
      } finally {
        process.kill(receiver, 'SIGCONT');
      }
      await untilHeld(replica, 12);
      assert.equal(await project.state(), 'idle');
    });

    it('learns of roles and passwords from its primary', async () => {
      const role_path = `${project.branch_path}/roles`;
      const { role } = await coppice.must('POST', role_path, { role: { name: 'reader' } });
      await coppice.settled(project.id);
      const uri = new URL(replica.uri);
      uri.username = 'reader';
      uri.password = role.password;
      await until(async () => (await refusal(uri.href)) === undefined, { what: 'the new role to be let in' });
      const { roles } = await coppice.must('GET', role_path);
      assert.equal(
        roles.some(({ name }: { name: string }) => name.startsWith('coppice')),
        false,
      );
    });

    it('runs with what a larger primary demands', async () => {
      await coppice.must('PATCH', project.endpoint_path, {
        endpoint: { autoscaling_limit_min_cu: 1, autoscaling_limit_max_cu: 1 },
      });
      await coppice.settled(project.id);
      await untilHeldAfterWrite(13);
      const [row] = await query(replica.uri, "select current_setting('max_connections')::int as max");
      assert.equal(row.max, 450);
    });

    it('takes no more sessions than its own size has', async () => {
      const clients: CustomerClient[] = [];
      try {
        for (;;) {
          const client = await connect(replica.uri).catch((error) => error);
          if (client instanceof Error) {
            assert.equal((client as Error & { code?: string }).code, '53300');
            break;
          }
          clients.push(client);
        }
        assert.equal(clients.length, 105, '112 of 0.25 CU, without the 7 that are the platform');
      } finally {
        await Promise.all(clients.map((client) => client[Symbol.asyncDispose]()));
      }
    });

    it('comes back when either server is killed', async () => {
      for (const uri of [replica.uri, project.uri]) {
        const id = uri === replica.uri ? 14 : 15;
        process.kill(await postmasterPid(await dataDirectoryOf(uri)), 'SIGKILL');
        await until(async () => (await write(project, id).catch(() => false)) !== false, { what: 'the primary' });
        await until(() => holds(replica, id).catch(() => false), { what: 'the replica to have what was written' });
      }
    });

    it('is made anew when the log that it missed is gone', async () => {
      await suspend(project, replica);
      await query(
        project.uri,
        'create table filler as select repeat(md5(i::text), 20) from generate_series(1, 4000) i',
      );
      await write(project, 16);
      // As if Postgres and the archive had removed what is older.
      const [{ segment }] = await query(project.uri, 'select pg_walfile_name(pg_current_wal_lsn()) as segment');
      const data_directory = await dataDirectoryOf(project.uri);
      await project.suspend();
      await removeLogBefore(join(data_directory, 'pg_wal'), segment);
      await removeArchive(data_directory);
      assert.equal(await holds(replica, 16), true);
    });

    it('leaves nothing when it is deleted', async () => {
      assert.ok((await volumes()).includes(replica.id));
      await coppice.must('DELETE', replica.path);
      await coppice.settled(project.id);
      assert.equal((await volumes()).includes(replica.id), false);
      assert.equal(await refusal(replica.uri), '28P01');
      assert.equal((await readdir(join(coppice.data_directory, 'computes'))).includes(replica.id), false);
    });

    async function untilHeldAfterWrite(id: number): Promise<void> {
      await write(project, id);
      await untilHeld(replica, id);
    }
    const removeLogBefore = async (wal: string, segment: string) => {
      for (const name of await readdir(wal)) {
        if (/^[0-9A-F]{24}$/.test(name) && name < segment) await rm(join(wal, name));
      }
    };
    const removeArchive = (data_directory: string) =>
      rm(join(coppice.data_directory, 'storage/archive', basename(data_directory)), { recursive: true, force: true });
  });

  it('of a branch without a read_write endpoint has the roles and rows of the branch', async () => {
    const { project } = await createPair();
    await write(project, 1);
    const { branch, endpoints } = await coppice.must('POST', `${project.path}/branches`, {
      branch: {},
      endpoints: [{ type: 'read_only' }],
    });
    await coppice.settled(project.id);
    const alone = replicaOf(project, endpoints[0]);
    assert.equal(await holds(alone, 1), true);
    const { role } = await coppice.must('POST', `${project.path}/branches/${branch.id}/roles`, {
      role: { name: 'reader' },
    });
    await suspend(project, alone);
    const uri = new URL(alone.uri);
    uri.username = 'reader';
    uri.password = role.password;
    assert.equal(await refusal(uri.href), undefined, 'a role that was made while nothing could hold it');
    await coppice.must('DELETE', `${project.path}/branches/${branch.id}`);
    await coppice.settled(project.id);
    assert.equal((await volumes()).includes(alone.id), false, 'goes with its branch');
  });
});
