import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeStartedDirectory } from '../support/coppice.ts';
import { connect, query } from '../support/customer.ts';
import { type KilledCoppice, killedCoppice } from '../support/killed-coppice.ts';
import { liveArchive } from '../support/live-archive.ts';
import {
  createLiveProject,
  dataDirectoryOf,
  type LiveProject,
  liveProject,
  postmasterPid,
  socketDirectoryOf,
} from '../support/live-project.ts';
import { until } from '../support/until.ts';

const rows = async (uri: string) => (await query(uri, 'select name from held order by name')).map(({ name }) => name);
const position = async (uri: string): Promise<string> =>
  (await query(uri, 'select pg_current_wal_insert_lsn()::text as lsn'))[0].lsn;

describe('a branch whose own compute replays its log', { timeout: 600_000 }, () => {
  let killed: KilledCoppice;
  let parent: LiveProject;
  let point: string;

  before(async () => {
    // However little there is to replay.
    killed = await killedCoppice(await makeStartedDirectory(), {
      COPPICE_SERVE_REPLAY_BYTES: '1kB',
      COPPICE_SNAPSHOT_INTERVAL_SECONDS: '30',
    });
    parent = await createLiveProject(await killed.running());
    await query(parent.uri, "create table held as select 'before' as name");
    await query(parent.uri, `select pg_logical_emit_message(true, 'a', repeat('x', 3000000))`);
    point = await position(parent.uri);
    await query(parent.uri, "insert into held values ('after')");
  });
  after(() => killed?.remove());

  const settled = async () => (await killed.running()).settled(parent.id);
  /** The same string for a Coppice on another port. */
  const now = async (uri: string): Promise<string> => {
    const url = new URL(uri);
    url.port = String((await killed.running()).pg_port);
    return url.href;
  };
  const createBranch = async (branch: object): Promise<LiveProject> => {
    const coppice = await killed.running();
    const body = { branch, endpoints: [{ type: 'read_write' }] };
    const child = liveProject(coppice, await coppice.must('POST', `${parent.path}/branches`, body));
    await coppice.settled(parent.id);
    return child;
  };
  const remove = async ({ branch_path }: LiveProject) => {
    const coppice = await killed.running();
    await coppice.must('DELETE', branch_path);
    await coppice.settled(parent.id);
  };
  const computes = async () => readdir(join((await killed.running()).data_directory, 'computes'));
  const replayedItself = async (uri: string) => basename(await socketDirectoryOf(uri)).startsWith('first-');
  /** So that its past can be asked for. */
  const hasHistory = (child: LiveProject) =>
    until(
      async () => {
        const { rows: found } = await (await killed.running()).ownDatabase(
          `select from coppice.timeline_snapshots s join coppice.branches b using (timeline_id)
             where b.id = '${child.branch_id}' and s.volume is not null`,
        );
        return found.length > 0;
      },
      { what: 'a first snapshot', timeout_ms: 60_000 },
    );

  it('holds what was there at its point, and has a history from its first snapshot on', async () => {
    const child = await createBranch({ parent_lsn: point });
    assert.deepEqual(await rows(child.uri), ['before']);
    assert.ok(await replayedItself(child.uri));
    await hasHistory(child);
    const later = await position(child.uri);
    await query(child.uri, "insert into held values ('child')");
    const grandchild = await createBranch({ parent_id: child.branch_id, parent_lsn: later });
    assert.deepEqual(await rows(grandchild.uri), ['before']);
    await remove(grandchild);
    // What was replayed is its parent's log, and no part of its own.
    const archive = await liveArchive(await killed.running(), child);
    await query(child.uri, `select pg_logical_emit_message(true, 'a', repeat('x', 3000000))`);
    await until(async () => (await archive.list()).length > 2, { what: 'archived log' });
    const names = (await archive.list()).map(({ name }) => name);
    assert.deepEqual([...new Set(names.map((name) => name.slice(0, 8)))], ['00000002']);
    const first = Number.parseInt(names[0]!.slice(16), 16);
    assert.deepEqual(
      names.map((name) => Number.parseInt(name.slice(16), 16)),
      names.map((_, index) => first + index),
    );
    await child.suspend();
    assert.deepEqual(await rows(child.uri), ['before', 'child'], 'it sleeps and wakes as any other');
    await remove(child);
    assert.ok(!(await computes()).some((name) => name.startsWith('first-')));
  });

  it('keeps what was committed when its server is killed, before and after its first checkpoint', async () => {
    const child = await createBranch({ parent_lsn: point });
    for (const name of ['first', 'second']) {
      await query(child.uri, `insert into held values ('${name}')`);
      process.kill(await postmasterPid(await dataDirectoryOf(child.uri)), 'SIGKILL');
      assert.ok((await rows(child.uri)).includes(name));
      await hasHistory(child);
    }
    await remove(child);
  });

  it('is restored to a point while it serves, and cuts its sessions off once', async () => {
    const child = await createBranch({});
    await query(child.uri, `select pg_logical_emit_message(true, 'a', repeat('x', 3000000))`);
    const past = await position(child.uri);
    await query(child.uri, "insert into held values ('regretted')");
    const body = { source_branch_id: child.branch_id, source_lsn: past };
    for (const name of ['kept', 'kept again']) {
      const session = await connect(child.uri);
      const ended = new Promise<void>((resolve) => session.on('error', () => resolve()));
      const coppice = await killed.running();
      if (name === 'kept') {
        await coppice.must('POST', `${child.branch_path}/restore`, { ...body, preserve_under_name: name });
      } else {
        await coppice.must('POST', `${child.branch_path}/restore`, {
          ...{ source_branch_id: parent.branch_id, source_lsn: point, preserve_under_name: name },
        });
      }
      await settled();
      await ended;
      assert.deepEqual(await rows(child.uri), name === 'kept' ? ['after', 'before'] : ['before']);
      assert.ok(await replayedItself(child.uri));
    }
    assert.equal((await computes()).filter((name) => name.startsWith('first-')).length, 1, 'of the one that runs');
    assert.ok(!(await computes()).includes(child.endpoint_id), 'nothing is left of the server from before');
    await remove(child);
  });

  it('is not one that could take over the subscriptions of its parent', async () => {
    const source = await createLiveProject(await killed.running());
    await query(
      source.uri,
      `create subscription s connection 'host=127.0.0.1 port=1 dbname=x user=x password=x' publication p
         with (connect = false, slot_name = 'theirs')`,
    );
    await query(source.uri, `select pg_logical_emit_message(true, 'a', repeat('x', 3000000))`);
    const lsn = await position(source.uri);
    const coppice = await killed.running();
    const body = { branch: { parent_lsn: lsn }, endpoints: [{ type: 'read_write' }] };
    const child = liveProject(coppice, await coppice.must('POST', `${source.path}/branches`, body));
    await coppice.settled(source.id);
    assert.ok(!(await replayedItself(child.uri)));
    const [subscription] = await query(child.uri, 'select subenabled, subslotname from pg_subscription');
    assert.deepEqual(subscription, { subenabled: false, subslotname: null });
    await coppice.must('DELETE', source.path);
  });

  for (const stop of [
    'create_branch:copied',
    'create_branch:started',
    'create_branch:ready',
    'start_compute:started',
  ]) {
    it(`is there after a kill at ${stop}, with nothing beside it`, async () => {
      const body = { branch: { name: `after ${stop}`, parent_lsn: point }, endpoints: [{ type: 'read_write' }] };
      await killed.killAt(stop, (doomed) => doomed.call('POST', `${parent.path}/branches`, body));
      await settled();
      const coppice = await killed.running();
      const { branches } = await coppice.must('GET', `${parent.path}/branches?search=after`);
      const [branch] = branches;
      const branch_path = `${parent.path}/branches/${branch.id}`;
      const [endpoint] = (await coppice.must('GET', `${branch_path}/endpoints`)).endpoints;
      const uri = (await now(parent.uri)).replaceAll(parent.endpoint_id, endpoint.id);
      assert.deepEqual(await rows(uri), ['before']);
      const names = new Set([basename(await socketDirectoryOf(uri)), endpoint.id]);
      const beside = (await computes()).filter((name) => name.startsWith('first-') && !names.has(name));
      assert.deepEqual(beside, []);
      await coppice.must('DELETE', branch_path);
      await coppice.settled(parent.id);
    });
  }
});
