import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeStartedDirectory, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { query } from '../support/customer.ts';
import { type KilledCoppice, killedCoppice } from '../support/killed-coppice.ts';
import { createLiveProject, type LiveProject } from '../support/live-project.ts';
import { until } from '../support/until.ts';

interface Shown {
  readonly id: string;
  readonly name: string;
}

/** Snapshots of a live project, in a Coppice that may be another one than that which made it. */
function snapshotsOf(coppice: TestCoppice, { path, id }: LiveProject) {
  const take = async (branch_id: string, fields: Record<string, string> = {}) => {
    const { snapshot } = await coppice.must('POST', `${path}/branches/${branch_id}/snapshot`, fields);
    await coppice.settled(id);
    return snapshot;
  };
  const restore = async (snapshot_id: string, body: object = {}) => {
    const answer = await coppice.must('POST', `${path}/snapshots/${snapshot_id}/restore`, body);
    await coppice.settled(id);
    return answer;
  };
  const branches = async () => (await coppice.must('GET', `${path}/branches`)).branches;
  return {
    take,
    restore,
    list: async (): Promise<Shown[]> => (await coppice.must('GET', `${path}/snapshots`)).snapshots,
    branch: async (name: string) => (await branches()).find((row: Shown) => row.name === name),
    /** The project's connection string, for an endpoint of another branch. */
    uriOf: async (branch_id: string, { role, database }: LiveProject) => {
      const wanted = new URLSearchParams({ branch_id, role_name: role, database_name: database });
      const answer = await coppice.must('GET', `${path}/connection_uri?${wanted}`);
      return answer.uri as string;
    },
  };
}

const values = async (uri: string) =>
  (await query(uri, 'select value from kept order by value')).map((row) => row.value);

describe('a snapshot of the API', { timeout: 600_000 }, () => {
  let coppice: TestCoppice;
  let project: LiveProject;
  let api: ReturnType<typeof snapshotsOf>;

  before(async () => {
    coppice = await startCoppice();
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
  });

  const fresh = async () => {
    project = await createLiveProject(coppice);
    api = snapshotsOf(coppice, project);
    await query(project.uri, "create table kept as select 'first' as value");
  };
  const write = (value: string, uri = project.uri) => query(uri, 'insert into kept values ($1)', [value]);
  const volumes = () => readdir(join(coppice.data_directory, 'storage/volumes'));

  it('of a running branch holds what was committed, and looking at it leaves the branch alone', async () => {
    await fresh();
    const snapshot = await api.take(project.branch_id, { name: 'then' });
    await write('second');
    const [shown] = (await api.list()) as { lsn?: string; timestamp?: string }[];
    assert.match(shown!.lsn!, /^[0-9A-F]+\/[0-9A-F]+$/);
    assert.ok(shown!.timestamp);

    const { branch, endpoints } = await api.restore(snapshot.id);
    const uri = await api.uriOf(branch.id, project);
    assert.ok(uri.includes(endpoints[0].id));
    assert.deepEqual(await values(uri), ['first']);
    await write('on the copy', uri);
    assert.deepEqual(await values(project.uri), ['first', 'second']);
    const source = await coppice.must('GET', project.branch_path);
    assert.equal('parent_lsn' in source.branch, false);

    // What is written to a restored branch is not in the next one.
    const again = await api.restore(snapshot.id);
    assert.deepEqual(await values(await api.uriOf(again.branch.id, project)), ['first']);
  });

  it('takes the place of its branch when it is finalized: host, name and password stay, the replaced branch is kept', async () => {
    await fresh();
    const snapshot = await api.take(project.branch_id);
    await query(project.uri, 'create role only_later login');
    await write('second');
    const { branch } = await api.restore(snapshot.id);
    await coppice.must('POST', `${project.path}/branches/${branch.id}/finalize_restore`);

    // Whoever comes next reaches the restored branch, or waits for it.
    assert.deepEqual(await values(project.uri), ['first']);
    await coppice.settled(project.id);
    await write('after');
    assert.deepEqual(await values(project.uri), ['after', 'first']);
    assert.deepEqual(await query(project.uri, "select from pg_roles where rolname = 'only_later'"), []);
    assert.equal((await api.branch('main')).id, branch.id);
    const old = await api.branch('main (old)');
    assert.equal(old.id, project.branch_id);
    await coppice.must('POST', `${project.path}/endpoints`, { endpoint: { branch_id: old.id, type: 'read_write' } });
    await coppice.settled(project.id);
    assert.deepEqual(await values(await api.uriOf(old.id, project)), ['first', 'second']);

    await coppice.must('DELETE', `${project.path}/branches/${old.id}`);
    await coppice.settled(project.id);
    assert.deepEqual(await values(project.uri), ['after', 'first']);
  });

  it('takes its place in one step, and is in it when the operations have ended', async () => {
    await fresh();
    const snapshot = await api.take(project.branch_id);
    await write('second');
    const { branch, operations } = await coppice.must('POST', `${project.path}/snapshots/${snapshot.id}/restore`, {
      finalize_restore: true,
      target_branch_id: project.branch_id,
    });
    for (const { id } of operations) {
      await until(async () => (await project.operation(id)).status === 'finished', { what: 'the restore' });
    }
    assert.deepEqual(await values(project.uri), ['first']);
    assert.deepEqual([(await api.branch('main')).id, (await api.branch('main')).default], [branch.id, true]);
    await coppice.settled(project.id);

    // The new main is a root: it has snapshots of its own, and can be replaced in turn.
    await write('third');
    const next = await api.take(branch.id);
    await write('fourth');
    await api.restore(next.id, { finalize_restore: true });
    assert.deepEqual(await values(project.uri), ['first', 'third']);
    assert.equal((await api.branch('main (old 2)')).id, branch.id);
  });

  it('takes its place in one step though that is being restored to something else', async () => {
    await fresh();
    const snapshot = await api.take(project.branch_id);
    await write('second');
    const [{ lsn: source_lsn }] = await query(project.uri, 'select pg_current_wal_insert_lsn() as lsn');
    await write('third');
    await coppice.must('POST', `${project.branch_path}/restore`, {
      ...{ source_branch_id: project.branch_id, source_lsn, preserve_under_name: 'before' },
    });
    await api.restore(snapshot.id, { finalize_restore: true });
    assert.deepEqual(await values(project.uri), ['first']);
    const old = await api.branch('main (old)');
    assert.equal(old.id, project.branch_id);
    for (const [{ id }, held] of [
      [old, ['first', 'second']],
      [await api.branch('before'), ['first', 'second', 'third']],
    ] as const) {
      await coppice.must('POST', `${project.path}/endpoints`, { endpoint: { branch_id: id, type: 'read_write' } });
      await coppice.settled(project.id);
      assert.deepEqual(await values(await api.uriOf(id, project)), held);
    }
  });

  it('of a sleeping branch leaves it asleep, and so does a restore of it', async () => {
    await fresh();
    await project.suspend();
    const snapshot = await api.take(project.branch_id);
    assert.equal(await project.state(), 'idle');
    await api.restore(snapshot.id, { finalize_restore: true });
    await project.untilState('idle');
    assert.deepEqual(await values(project.uri), ['first']);
  });

  it('of a point of the past holds what was committed before it', async () => {
    await fresh();
    const [{ lsn }] = await query(project.uri, 'select pg_current_wal_insert_lsn() as lsn');
    await write('second');
    await query(project.uri, 'create database later');
    const snapshot = await api.take(project.branch_id, { lsn });
    const { branch } = await api.restore(snapshot.id);
    assert.deepEqual(await values(await api.uriOf(branch.id, project)), ['first']);
    const { databases } = await coppice.must('GET', `${project.path}/branches/${branch.id}/databases`);
    assert.deepEqual(
      databases.map(({ name }: Shown) => name),
      [project.database],
    );
    assert.deepEqual(await values(project.uri), ['first', 'second']);
    const { roles } = await coppice.must('GET', `${project.branch_path}/roles`);
    assert.deepEqual(
      roles.map(({ name }: Shown) => name),
      [project.role],
    );
  });

  it('and a branch are deleted when their time is over', async () => {
    await fresh();
    const before = await volumes();
    const snapshot = await api.take(project.branch_id);
    const { branch } = await coppice.must('POST', `${project.path}/branches`, { branch: { name: 'short' } });
    await coppice.settled(project.id);
    // Those of other projects, too, have snapshots made of them meanwhile.
    const { rows: known } = await coppice.ownDatabase(
      `select id::text from coppice.timelines where project_id = '${project.id}' union all
       select s.id::text from coppice.timeline_snapshots s join coppice.timelines t on t.id = s.timeline_id
         where t.project_id = '${project.id}'`,
    );
    const made = (await volumes()).filter((name) => !before.includes(name) && known.some(({ id }) => id === name));
    assert.ok(made.length > 0);
    const soon = () => ({ expires_at: new Date(Date.now() + 3_000).toISOString() });
    await coppice.must('PATCH', `${project.path}/snapshots/${snapshot.id}`, { snapshot: soon() });
    await coppice.must('PATCH', `${project.path}/branches/${branch.id}`, { branch: soon() });
    await until(async () => (await api.list()).length === 0 && !(await api.branch('short')), { what: 'the expiry' });
    const left = async () => (await volumes()).filter((name) => made.includes(name));
    await until(async () => (await left()).length === 0, { what: 'the volumes to go' });
  });

  it('stays when its branch is deleted, and goes with its project, volume and all', async () => {
    await fresh();
    const { branch } = await api.restore((await api.take(project.branch_id)).id, { name: 'second root' });
    const snapshot = await api.take(branch.id);
    await coppice.must('DELETE', `${project.path}/branches/${branch.id}`);
    await coppice.settled(project.id);
    const restored = await api.restore(snapshot.id);
    assert.deepEqual(await values(await api.uriOf(restored.branch.id, project)), ['first']);

    const { rows } = await coppice.ownDatabase(
      `select id from coppice.timelines where project_id = '${project.id}' and volume is not null`,
    );
    await coppice.must('DELETE', project.path);
    await until(
      async () => {
        const left = new Set(await readdir(join(coppice.data_directory, 'storage/volumes')));
        return rows.every(({ id }) => !left.has(id));
      },
      { what: 'the volumes to go' },
    );
  });
});

describe('Coppice is killed while it restores a snapshot in one step', { timeout: 600_000 }, () => {
  let killed: KilledCoppice;
  let project: LiveProject;
  let snapshot_id: string;
  let branch_id: string;
  const kept = ['first'];

  const uriAt = ({ pg_port }: TestCoppice) => {
    const url = new URL(project.uri);
    url.port = String(pg_port);
    return url.href;
  };
  const settledAll = async (coppice: TestCoppice) => {
    await coppice.settled(project.id);
    const { branches } = await coppice.must('GET', `${project.path}/branches`);
    return branches as (Shown & { restore_status?: string })[];
  };

  before(async () => {
    killed = await killedCoppice(await makeStartedDirectory());
    const coppice = await killed.running();
    project = await createLiveProject(coppice);
    branch_id = project.branch_id;
    await query(project.uri, "create table kept as select 'first' as value");
    snapshot_id = (await snapshotsOf(coppice, project).take(branch_id)).id;
  });
  after(() => killed?.remove());

  for (const point of ['create_branch:copied', 'create_branch:prepared', 'create_branch:ready', 'create_branch:end']) {
    it(`at ${point}, and the next start brings it to its end`, async () => {
      await query(uriAt(await killed.running()), 'insert into kept values ($1)', [point]);
      await killed.killAt(point, (doomed) =>
        doomed.call('POST', `${project.path}/snapshots/${snapshot_id}/restore`, {
          finalize_restore: true,
          target_branch_id: branch_id,
        }),
      );
      const next = await killed.running();
      const branches = await settledAll(next);
      const main = branches.find(({ name }) => name === 'main')!;
      assert.equal(main.restore_status, 'finalized');
      assert.notEqual(main.id, branch_id);
      assert.deepEqual(await values(uriAt(next)), kept);
      branch_id = main.id;
    });
  }
});
