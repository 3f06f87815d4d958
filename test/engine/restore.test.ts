import assert from 'node:assert/strict';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeStartedDirectory, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { connect, query, refusal } from '../support/customer.ts';
import { type KilledCoppice, killedCoppice } from '../support/killed-coppice.ts';
import { createLiveProject, dataDirectoryOf, type LiveProject, liveProject } from '../support/live-project.ts';
import { until } from '../support/until.ts';

const rows = async (uri: string) => (await query(uri, 'select name from held order by name')).map(({ name }) => name);

/** The same string for a Coppice on another port. */
function at(coppice: TestCoppice, uri: string): string {
  const url = new URL(uri);
  url.port = String(coppice.pg_port);
  return url.href;
}

/** Volumes of branches: not the copies that their histories are replayed from, nor templates. */
async function branchVolumes(coppice: TestCoppice): Promise<string[]> {
  const { rows: found } = await coppice.ownDatabase('select id from coppice.timelines');
  const timelines = new Set(found.map(({ id }) => id));
  return (await readdir(join(coppice.data_directory, 'storage/volumes'))).filter((name) => timelines.has(name));
}

describe('a restored branch', { timeout: 600_000 }, () => {
  let coppice: TestCoppice;
  let parent: LiveProject;

  before(async () => {
    coppice = await startCoppice();
    parent = await createLiveProject(coppice);
    await query(parent.uri, "create table held as select 'parent' as name");
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
  });

  const createChild = async (branch: object = {}): Promise<LiveProject> => {
    const body = { branch, endpoints: [{ type: 'read_write' }] };
    const child = liveProject(coppice, await coppice.must('POST', `${parent.path}/branches`, body));
    await coppice.settled(parent.id);
    return child;
  };
  const restore = (target: LiveProject, body: object) => coppice.must('POST', `${target.branch_path}/restore`, body);
  const branch = async (id: string) => (await coppice.must('GET', `${parent.path}/branches/${id}`)).branch;
  const volumes = () => branchVolumes(coppice);
  const remove = async (id: string) => {
    await coppice.must('DELETE', `${parent.path}/branches/${id}`);
    await coppice.settled(parent.id);
  };

  it('holds what its parent holds, at the same address, and its old volume is gone', async () => {
    const child = await createChild();
    await query(child.uri, "insert into held values ('child')");
    await query(parent.uri, "insert into held values ('later')");
    const before = await volumes();
    await restore(child, { source_branch_id: parent.branch_id });
    assert.deepEqual(await rows(child.uri), ['later', 'parent'], 'whoever connects meanwhile waits for it');
    await coppice.settled(parent.id);
    assert.equal((await volumes()).length, before.length);
    const shown = await branch(child.branch_id);
    assert.equal(shown.current_state, 'ready');
    assert.match(shown.parent_lsn, /^[0-9A-F]+\/[0-9A-F]+$/);
    await query(child.uri, "insert into held values ('again')");
    await remove(child.branch_id);
  });

  it('cuts a session off once, and serves the next one from then on', async () => {
    const child = await createChild();
    const session = await connect(child.uri);
    const ends: string[] = [];
    session.on('error', (error: Error & { code?: string }) => ends.push(error.code ?? error.message));
    await session.query("insert into held values ('child')");
    await restore(child, { source_branch_id: parent.branch_id });
    await until(() => ends.length > 0, { what: 'the session to end' });
    assert.equal(ends[0], '57P01', 'as by any stop of a server');
    const [next, other] = [await connect(child.uri), await connect(child.uri)];
    let later = 0;
    for (const one of [next, other]) one.on('error', () => (later += 1));
    await next.query("insert into held values ('acknowledged')");
    await coppice.settled(parent.id);
    const { rows: seen } = await other.query("select count(*)::int as count from held where name = 'acknowledged'");
    assert.deepEqual([seen[0].count, later], [1, 0]);
    await Promise.all([next.end(), other.end()]);
    await remove(child.branch_id);
  });

  it('keeps a sleeping compute asleep', async () => {
    const child = await createChild();
    await child.suspend();
    await restore(child, { source_branch_id: parent.branch_id });
    await coppice.settled(parent.id);
    assert.equal(await child.state(), 'idle');
    assert.ok((await rows(child.uri)).includes('parent'));
    await remove(child.branch_id);
  });

  it('is preserved as it was under another name, which serves its own endpoint', async () => {
    const target = await createChild({ name: 'target' });
    await query(target.uri, "insert into held values ('target')");
    const grandchild = await createChild({ name: 'grandchild', parent_id: target.branch_id });
    const source = await createChild({ name: 'source' });
    await query(source.uri, "insert into held values ('source')");
    // Made in SQL, and not seen yet: the server that stops tells it to the branch that keeps its data.
    await query(target.uri, "create role by_hand login password 'by hand'");
    const answer = await restore(target, { source_branch_id: source.branch_id, preserve_under_name: 'kept' });
    await coppice.settled(parent.id);
    assert.equal(answer.branch.parent_id, source.branch_id);
    const names = await rows(target.uri);
    assert.ok(names.includes('source') && !names.includes('target'), String(names));
    const [kept] = (await coppice.must('GET', `${parent.path}/branches?search=kept`)).branches;
    assert.equal((await branch(grandchild.branch_id)).parent_id, kept.id);
    const { endpoint } = await coppice.must('POST', `${parent.path}/endpoints`, {
      endpoint: { branch_id: kept.id, type: 'read_write' },
    });
    await coppice.settled(parent.id);
    const uri = target.uri.replaceAll(target.endpoint_id, endpoint.id);
    const old = await rows(uri);
    assert.ok(old.includes('target') && !old.includes('source'), String(old));
    const { roles } = await coppice.must('GET', `${parent.path}/branches/${kept.id}/roles`);
    assert.ok(roles.some(({ name }: { name: string }) => name === 'by_hand'));
    for (const id of [grandchild.branch_id, kept.id, target.branch_id, source.branch_id]) await remove(id);
  });

  it('has the roles and databases of its source, and opens to the passwords that it had', async () => {
    const source = await createChild({ name: 'with-more' });
    await coppice.must('POST', `${source.branch_path}/roles`, { role: { name: 'more' } });
    await coppice.must('POST', `${source.branch_path}/databases`, { database: { name: 'more', owner_name: 'more' } });
    await coppice.must('POST', `${source.branch_path}/roles/${source.role}/reset_password`);
    const target = await createChild({ name: 'with-less' });
    await coppice.must('POST', `${target.branch_path}/roles`, { role: { name: 'less' } });
    await coppice.settled(parent.id);
    await restore(target, { source_branch_id: source.branch_id });
    await coppice.settled(parent.id);
    const inServer = async (sql: string) => (await query(target.uri, sql)).map(({ name }) => name);
    assert.deepEqual(await inServer("select rolname::text as name from pg_roles where rolname in ('more', 'less')"), [
      'more',
    ]);
    assert.deepEqual(await inServer("select datname::text as name from pg_database where datname = 'more'"), ['more']);
    const reveal = await coppice.must('GET', `${target.branch_path}/roles/more/reveal_password`);
    const [more, less] = [new URL(target.uri), new URL(target.uri)];
    Object.assign(more, { username: 'more', password: reveal.password, pathname: '/more' });
    Object.assign(less, { username: 'less' });
    assert.equal(await refusal(more.href), undefined);
    assert.equal(await refusal(less.href), '28P01');
    for (const { branch_id } of [target, source]) await remove(branch_id);
  });

  it('has its own past back, with what was dropped since, and its present is preserved as its parent', async () => {
    const target = await createChild({ name: 'regretted' });
    await query(target.uri, "insert into held values ('before')");
    await coppice.must('POST', `${target.branch_path}/roles`, { role: { name: 'dropped' } });
    await coppice.settled(parent.id);
    await coppice.must('POST', `${target.branch_path}/databases`, {
      database: { name: 'dropped', owner_name: 'dropped' },
    });
    await coppice.settled(parent.id);
    const [{ lsn }] = await query(target.uri, 'select pg_current_wal_insert_lsn()::text as lsn');
    await coppice.must('DELETE', `${target.branch_path}/databases/dropped`);
    await coppice.must('DELETE', `${target.branch_path}/roles/dropped`);
    await coppice.must('POST', `${target.branch_path}/roles`, { role: { name: 'later' } });
    await coppice.settled(parent.id);
    await query(target.uri, 'delete from held');
    const { password } = (await coppice.must('POST', `${target.branch_path}/roles/${target.role}/reset_password`)).role;
    await coppice.settled(parent.id);

    const wanted = { source_branch_id: target.branch_id, source_lsn: lsn, preserve_under_name: 'regrettable' };
    const answer = await restore(target, wanted);
    await coppice.settled(parent.id);
    const kept = await branch(answer.branch.parent_id);
    assert.deepEqual([kept.name, kept.parent_id], ['regrettable', parent.branch_id]);
    const uri = new URL(target.uri);
    uri.password = password;
    assert.ok((await rows(uri.href)).includes('before'), 'it opens to the password of now');
    const names = async (what: string) =>
      (await coppice.must('GET', `${target.branch_path}/${what}`))[what].map(({ name }: { name: string }) => name);
    assert.deepEqual((await names('roles')).sort(), ['dropped', target.role].sort());
    assert.deepEqual((await names('databases')).sort(), ['dropped', target.database].sort());
    for (const id of [target.branch_id, kept.id]) await remove(id);
  });

  it('is what another branch was at a time, and so is its read replica, which goes on with it', async () => {
    const target = await createChild({ name: 'followed' });
    const { endpoint } = await coppice.must('POST', `${parent.path}/endpoints`, {
      endpoint: { branch_id: target.branch_id, type: 'read_only' },
    });
    await coppice.settled(parent.id);
    const replica = target.uri.replaceAll(target.endpoint_id, endpoint.id);
    const untilBoth = (name: string) =>
      until(async () => (await Promise.all([target.uri, replica].map(rows))).every((held) => held.includes(name)), {
        what: `${name} on the branch and on its replica`,
        timeout_ms: 60_000,
      });
    await query(target.uri, "insert into held values ('given up')");
    await untilBoth('given up');
    await query(parent.uri, "insert into held values ('in time')");
    const [{ time }] = await query(
      parent.uri,
      `select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as time`,
    );
    await query(parent.uri, "insert into held values ('too late')");
    await restore(target, { source_branch_id: parent.branch_id, source_timestamp: time });
    await coppice.settled(parent.id);
    await untilBoth('in time');
    for (const uri of [target.uri, replica]) {
      assert.deepEqual(
        (await rows(uri)).filter((name) => ['given up', 'too late'].includes(name)),
        [],
      );
    }
    await query(target.uri, "insert into held values ('onwards')");
    await untilBoth('onwards');
    await remove(target.branch_id);
  });

  it('is what it was when what it is to become cannot be made, and nobody was cut off', async () => {
    const source = await createChild({ name: 'broken' });
    const target = await createChild({ name: 'unharmed' });
    const grandchild = await createChild({ name: 'moved-and-back', parent_id: target.branch_id });
    await query(target.uri, "insert into held values ('target')");
    const directory = await dataDirectoryOf(source.uri);
    await source.suspend();
    await writeFile(join(directory, 'global/pg_control'), Buffer.alloc(8192));
    const before = await branch(target.branch_id);
    const left = await volumes();
    await using session = await connect(target.uri);

    const { operations } = await restore(target, {
      source_branch_id: source.branch_id,
      preserve_under_name: 'in vain',
    });
    const state = async () => (await target.operation(operations[0].id)).status;
    await until(async () => (await state()) === 'failed', { what: 'the restore to be given up', timeout_ms: 60_000 });
    // What is measured and metered goes on meanwhile, and is no change of the branch.
    const observed = /^(updated_at|logical_size|cpu_used_sec|.*_(time_seconds|data_bytes|transfer_bytes))$/;
    const intended = (of: object) => Object.entries(of).filter(([name]) => !observed.test(name));
    assert.deepEqual(intended(await branch(target.branch_id)), intended(before));
    assert.equal((await branch(grandchild.branch_id)).parent_id, target.branch_id);
    assert.deepEqual((await coppice.must('GET', `${parent.path}/branches?search=in%20vain`)).branches, []);
    const { rows: seen } = await session.query("select name from held where name = 'target'");
    assert.equal(seen.length, 1, 'the same session goes on');
    assert.ok((await rows(target.uri)).includes('target'));
    await coppice.must('POST', `${target.branch_path}/roles`, { role: { name: 'afterwards' } });
    await until(async () => (await volumes()).length === left.length, { what: 'what was half made to be gone' });
    for (const id of [grandchild.branch_id, target.branch_id, source.branch_id]) {
      await coppice.must('DELETE', `${parent.path}/branches/${id}`);
    }
  });
});

const KILLED_AT = [
  'create_branch:begin',
  'create_branch:copied',
  'create_branch:cloned',
  'create_branch:prepared',
  'create_branch:end',
  'suspend_compute:stopping',
  'suspend_compute:stopped',
  'start_compute:started',
  'start_compute:end',
  'delete_timeline:stopped',
  'delete_timeline:deleted',
  'delete_timeline:end',
];

describe('Coppice is killed in the middle of a restore', { timeout: 900_000 }, () => {
  let killed: KilledCoppice;
  let project: LiveProject;
  let target: LiveProject;
  let round = 0;

  before(async () => {
    killed = await killedCoppice(await makeStartedDirectory());
    const coppice = await killed.running();
    project = await createLiveProject(coppice);
    await query(project.uri, "create table held as select 'parent' as name");
    const body = { branch: {}, endpoints: [{ type: 'read_write' }] };
    target = liveProject(coppice, await coppice.must('POST', `${project.path}/branches`, body));
    await coppice.settled(project.id);
  });
  after(() => killed?.remove());

  for (const point of KILLED_AT) {
    it(`at ${point}, and the next start brings it to its end`, async () => {
      round += 1;
      const before = await killed.running();
      await query(at(before, project.uri), `insert into held values ('parent ${round}')`);
      await query(at(before, target.uri), `insert into held values ('target ${round}')`);
      await killed.killAt(point, (doomed) =>
        doomed.call('POST', `${target.branch_path}/restore`, { source_branch_id: project.branch_id }),
      );
      const next = await killed.running();
      const held = await rows(at(next, target.uri));
      await query(at(next, target.uri), `insert into held values ('acknowledged')`);
      await next.settled(project.id);
      assert.ok(held.includes(`parent ${round}`) && !held.includes(`target ${round}`), String(held));
      assert.ok((await rows(at(next, target.uri))).includes('acknowledged'));
      const { branch } = await next.must('GET', target.branch_path);
      assert.equal(branch.current_state, 'ready');
      assert.equal((await branchVolumes(next)).length, 2);
    });
  }
});
