import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { connect, query, refusal } from '../support/customer.ts';
import { createLiveProject, type LiveProject, liveProject } from '../support/live-project.ts';
import { until } from '../support/until.ts';

const ACCOUNTS = 20;
const WRITERS = 4;

describe('a branch', { timeout: 300_000 }, () => {
  let coppice: TestCoppice;
  let parent: LiveProject;

  before(async () => {
    coppice = await startCoppice();
    parent = await createLiveProject(coppice, { settings: { enable_logical_replication: true } });
    await query(parent.uri, 'create table accounts (id int primary key, balance int not null)');
    await query(parent.uri, 'insert into accounts select id, 100 from generate_series(1, $1::int) id', [ACCOUNTS]);
    await query(parent.uri, 'create table counted (writer int, number int)');
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
  });

  const create = (branch: object = {}) =>
    coppice.must('POST', `${parent.path}/branches`, { branch, endpoints: [{ type: 'read_write' }] });
  const createChild = async (branch: object = {}): Promise<LiveProject> => {
    const child = liveProject(coppice, await create(branch));
    await coppice.settled(parent.id);
    return child;
  };
  const remove = async (child: LiveProject) => {
    await coppice.must('DELETE', child.branch_path);
    await coppice.settled(parent.id);
  };
  const assertBalanced = async (uri: string) => {
    const [{ sum, count }] = await query(uri, 'select sum(balance)::int, count(*)::int from accounts');
    assert.deepEqual([sum, count], [ACCOUNTS * 100, ACCOUNTS]);
  };

  /** Moves money and counts up until it is told to stop; `acknowledged` is what every writer was told is committed. */
  async function writeLoad() {
    const stop = new AbortController();
    const acknowledged = new Array<number>(WRITERS).fill(0);
    const writer = async (number: number) => {
      await using client = await connect(parent.uri);
      while (!stop.signal.aborted) {
        const from = 1 + ((acknowledged[number]! * 7 + number) % ACCOUNTS);
        const to = 1 + ((acknowledged[number]! * 3 + 1) % ACCOUNTS);
        await client.query('begin');
        for (const [id, change] of [
          [from, -1],
          [to, 1],
        ].sort((a, b) => a[0]! - b[0]!)) {
          await client.query('update accounts set balance = balance + $2 where id = $1', [id, change]);
        }
        await client.query('insert into counted values ($1, $2)', [number, acknowledged[number]! + 1]);
        await client.query('commit');
        acknowledged[number]! += 1;
      }
    };
    const writers = Promise.all(acknowledged.map((_, number) => writer(number)));
    await until(() => acknowledged.every((count) => count > 20), { what: 'load' });
    return {
      acknowledged,
      stop: async () => {
        stop.abort();
        await writers;
      },
    };
  }

  it('of a running parent has every row that was committed before it was asked for, and whole transactions', async () => {
    const load = await writeLoad();
    try {
      for (let round = 0; round < 3; round++) {
        const before = [...load.acknowledged];
        const child = await createChild();
        await assertBalanced(child.uri);
        const counted = await query(
          child.uri,
          'select writer, count(*)::int, max(number)::int from counted group by writer order by writer',
        );
        for (const { writer, count, max } of counted) {
          assert.equal(count, max, 'nothing is missing in between');
          assert.ok(max >= before[writer]!, `writer ${writer}: ${max} of ${before[writer]}`);
        }
        await remove(child);
      }
    } finally {
      await load.stop();
    }
    await assertBalanced(parent.uri);
  });

  it('of a sleeping parent has every row, and leaves the parent asleep', async () => {
    const [{ total }] = await query(parent.uri, 'select count(*)::int as total from counted');
    await parent.suspend();
    const child = await createChild();
    assert.deepEqual(await query(child.uri, 'select count(*)::int as total from counted'), [{ total }]);
    await assertBalanced(child.uri);
    assert.equal(await parent.state(), 'idle');
    await query(child.uri, 'delete from counted');
    assert.deepEqual(await query(parent.uri, 'select count(*)::int as total from counted'), [{ total }]);
    await remove(child);
  });

  it('can have branches, and stays as long as it has', async () => {
    const child = await createChild({ name: 'child' });
    await query(child.uri, "create table lineage as select 'child' as name");
    const grandchild = await createChild({ name: 'grandchild', parent_id: child.branch_id });
    await query(grandchild.uri, "insert into lineage values ('grandchild')");
    assert.deepEqual(await query(child.uri, 'select name from lineage'), [{ name: 'child' }]);
    const refused = await coppice.call('DELETE', child.branch_path);
    assert.equal(refused.status, 422);
    assert.match(refused.body.message, /grandchild/);
    assert.deepEqual(await query(child.uri, 'select name from lineage'), [{ name: 'child' }]);

    // Gone in one order, and asked for in the other.
    await remove(grandchild);
    await coppice.must('DELETE', child.branch_path);
    const late = await coppice.call('POST', `${parent.path}/branches`, { branch: { parent_id: child.branch_id } });
    assert.equal(late.status, 404);
    await coppice.settled(parent.id);
  });

  it('frees its volume when it is deleted', async () => {
    const volumes = () => readdir(join(coppice.data_directory, 'storage/volumes'));
    const before = await volumes();
    const child = await createChild();
    const made = (await volumes()).filter((name) => !before.includes(name));
    assert.ok(made.length >= 2, 'it and the snapshot that its history begins with');
    await remove(child);
    const left = await volumes();
    assert.deepEqual(
      made.filter((name) => left.includes(name)),
      [],
    );
    assert.equal(await refusal(child.uri), '28P01');
  });

  it('of a protected parent opens to other passwords', async () => {
    await coppice.must('PATCH', parent.branch_path, { branch: { protected: true } });
    const child = await createChild();
    await coppice.must('PATCH', parent.branch_path, { branch: { protected: false } });
    const [ours, theirs] = [new URL(parent.uri), new URL(child.uri)];
    assert.notEqual(theirs.password, ours.password);
    assert.equal(await refusal(child.uri), undefined);
    theirs.password = ours.password;
    assert.equal(await refusal(theirs.href), '28P01', 'nor does the password of the parent open the child');
    await remove(child);
  });

  it('has roles and databases of its own', async () => {
    const child = await createChild();
    await coppice.must('POST', `${child.branch_path}/roles`, { role: { name: 'only_here' } });
    await coppice.must('POST', `${child.branch_path}/databases`, {
      database: { name: 'only_here', owner_name: 'only_here' },
    });
    await coppice.settled(parent.id);
    const inServer = (uri: string) =>
      query(uri, "select rolname::text as name from pg_roles where rolname = 'only_here'");
    assert.deepEqual(await inServer(child.uri), [{ name: 'only_here' }]);
    assert.deepEqual(await inServer(parent.uri), []);
    for (const what of ['roles', 'databases']) {
      const body = await coppice.must('GET', `${parent.branch_path}/${what}`);
      assert.ok(!body[what].some(({ name }: { name: string }) => name === 'only_here'));
    }
    await remove(child);
  });

  it('does not act as its parent', async () => {
    await query(parent.uri, 'create unlogged table forgotten as select 1 as one');
    await query(parent.uri, "select pg_create_logical_replication_slot('ours', 'pgoutput')");
    const child = await createChild();
    assert.deepEqual(await query(child.uri, 'select one from forgotten'), []);
    assert.deepEqual(await query(child.uri, 'select slot_name from pg_replication_slots'), []);
    assert.deepEqual(await query(parent.uri, 'select one from forgotten'), [{ one: 1 }]);
    await query(parent.uri, "select pg_drop_replication_slot('ours')");
    await remove(child);
  });

  it('has the system identifier of its project, which is that of no other', async () => {
    const identifier = async (uri: string) =>
      (await query(uri, 'select system_identifier::text as id from pg_control_system()'))[0].id;
    const child = await createChild();
    const other = await createLiveProject(coppice);
    assert.equal(await identifier(child.uri), await identifier(parent.uri));
    assert.notEqual(await identifier(other.uri), await identifier(parent.uri));
    await remove(child);
    await coppice.must('DELETE', other.path);
  });

  it('is made while its parent is put to sleep and woken, as if nothing were', async () => {
    for (let round = 0; round < 4; round++) {
      const making = create();
      // Early, in the middle or late.
      await delay(round * 15);
      const suspending = coppice.call('POST', `${parent.endpoint_path}/suspend`);
      const child = liveProject(coppice, await making);
      assert.ok([200, 423].includes((await suspending).status));
      await assertBalanced(parent.uri);
      await coppice.settled(parent.id);
      await assertBalanced(child.uri);
      await remove(child);
    }
  });
});
