import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { query } from '../support/customer.ts';
import {
  createLiveProject,
  dataDirectoryOf,
  type LiveProject,
  liveProject,
  postmasterPid,
} from '../support/live-project.ts';
import { until } from '../support/until.ts';

/** Where the parent stood after a commit. */
interface Mark {
  readonly rows: number;
  readonly lsn: string;
  /** With six decimals. */
  readonly time: string;
}

describe('a branch at a point of its parent', { timeout: 600_000 }, () => {
  let coppice: TestCoppice;
  let parent: LiveProject;
  const marks: Mark[] = [];

  /** Commits one more row, and notes what then is. */
  const commit = async (uri: string): Promise<Mark> => {
    // Not by a sequence, which skips numbers after a replay.
    const next = 'insert into events select coalesce(max(id), 0) + 1, $1 from events';
    await query(uri, next, ['x'.repeat(2000)]);
    const [row] = await query(
      uri,
      `select pg_current_wal_insert_lsn()::text as lsn, (select count(*)::int from events) as rows,
         to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as time`,
    );
    return row as Mark;
  };

  before(async () => {
    coppice = await startCoppice();
    parent = await createLiveProject(coppice);
    await query(parent.uri, 'create table events (id int primary key, note text)');
    for (let made = 0; made < 20; made++) marks.push(await commit(parent.uri));
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
  });

  const ask = (branch: object, path = parent.path) =>
    coppice.call('POST', `${path}/branches`, { branch, endpoints: [{ type: 'read_write' }] });
  // biome-ignore lint/suspicious/noExplicitAny: shapes are the contract test's business
  const create = async (branch: object): Promise<{ child: LiveProject; created: any }> => {
    const { status, body } = await ask(branch);
    assert.equal(status, 201, `${JSON.stringify(body)}\n${coppice.output()}`);
    await coppice.settled(parent.id);
    // Not in the answer where there are several roles.
    const names = `role_name=${parent.role}&database_name=${parent.database}`;
    const { uri } = await coppice.must('GET', `${parent.path}/connection_uri?branch_id=${body.branch.id}&${names}`);
    const created = { ...body, connection_uris: [{ connection_uri: uri }] };
    return { child: liveProject(coppice, created), created: body.branch };
  };
  const rowsOf = async (uri: string): Promise<number> => {
    const [{ rows, last }] = await query(uri, 'select count(*)::int as rows, max(id) as last from events');
    assert.equal(rows, last, 'none is missing in between');
    return rows;
  };
  const shown = async (child: LiveProject) => (await coppice.must('GET', child.branch_path)).branch;
  const sleep = async () => {
    await coppice.must('POST', `${parent.endpoint_path}/suspend`);
    await coppice.settled(parent.id);
  };

  it('by LSN holds exactly what was committed before', async () => {
    for (const mark of [marks[0]!, marks[7]!, marks[19]!]) {
      const { child, created } = await create({ parent_lsn: mark.lsn });
      assert.equal(await rowsOf(child.uri), mark.rows);
      assert.equal(created.parent_timestamp, undefined);
      const { parent_lsn, parent_timestamp } = await shown(child);
      assert.equal(parent_lsn, created.parent_lsn);
      assert.ok(Date.parse(parent_timestamp) <= Date.parse(mark.time), `${parent_timestamp} is not after ${mark.time}`);
    }
  });

  it('by time holds the commits up to it, whatever the zone and the decimals', async () => {
    const { time, rows } = marks[11]!;
    const inTokyo = new Date(Date.parse(time) + 9 * 3_600_000).toISOString().slice(0, 19) + time.slice(19, 26);
    for (const parent_timestamp of [time, `${inTokyo}+09:00`]) {
      const { child } = await create({ parent_timestamp });
      assert.equal(await rowsOf(child.uri), rows);
    }
  });

  it('leaves the parent as it is', async () => {
    assert.equal(await rowsOf(parent.uri), marks.length);
    marks.push(await commit(parent.uri));
  });

  it('later than the last commit is the head, of an idle and of a sleeping parent', async () => {
    const { time, rows } = marks.at(-1)!;
    const later = new Date(Date.parse(time) + 1).toISOString();
    await until(() => Date.now() > Date.parse(later), { what: 'the time to pass' });
    assert.equal(await rowsOf((await create({ parent_timestamp: later })).child.uri), rows);
    await sleep();
    assert.equal(await rowsOf((await create({ parent_timestamp: later })).child.uri), rows);
    assert.equal(await rowsOf((await create({ parent_timestamp: marks[3]!.time })).child.uri), marks[3]!.rows);
    const { endpoint } = await coppice.must('GET', parent.endpoint_path);
    assert.equal(endpoint.current_state, 'idle', 'nobody woke the parent');
  });

  it('is found while the server of the parent has just been killed, or is about to be up again', async () => {
    for (let round = 0; round < 2; round++) {
      marks.push(await commit(parent.uri));
      // What was not flushed is lost with the server.
      const [{ lsn }] = await query(parent.uri, 'select pg_current_wal_flush_lsn()::text as lsn');
      process.kill(await postmasterPid(await dataDirectoryOf(parent.uri)), 'SIGKILL');
      // Asked until it serves again: each answer is a branch, or that something is in the way.
      const answers: Awaited<ReturnType<typeof ask>>[] = [];
      let serves = false;
      const wake = async () => {
        await query(parent.uri, 'select 1');
        serves = true;
      };
      const askOn = async () => {
        do {
          const branch = { parent_lsn: lsn };
          answers.push(await coppice.call('POST', `${parent.path}/branches`, { branch }));
        } while (!serves && answers.length < 5);
      };
      await Promise.all([wake(), askOn()]);
      const others = answers.filter(({ status }) => status !== 201 && status !== 423);
      assert.deepEqual(
        others.map(({ status, body }) => [status, body.message]),
        [],
      );
      await coppice.settled(parent.id);
      for (const { status, body } of answers) {
        if (status === 201) await coppice.must('DELETE', `${parent.path}/branches/${body.branch.id}`);
      }
      await coppice.settled(parent.id);
    }
  });

  it('is found across sleeps of the parent', async () => {
    for (let round = 0; round < 3; round++) {
      marks.push(await commit(parent.uri));
      await sleep();
    }
    marks.push(await commit(parent.uri));
    for (const mark of marks.slice(-5)) {
      assert.equal(await rowsOf((await create({ parent_lsn: mark.lsn })).child.uri), mark.rows);
    }
  });

  it('has the roles and databases of then, and opens to the passwords of now', async () => {
    const before_ = await commit(parent.uri);
    marks.push(before_);
    await coppice.must('POST', `${parent.branch_path}/roles`, { role: { name: 'later' } });
    await coppice.settled(parent.id);
    await coppice.must('POST', `${parent.branch_path}/databases`, { database: { name: 'later', owner_name: 'later' } });
    await coppice.settled(parent.id);
    const { child } = await create({ parent_lsn: before_.lsn });
    const names = async (noun: string) =>
      (await coppice.must('GET', `${child.branch_path}/${noun}`))[noun].map(({ name }: { name: string }) => name);
    assert.equal(await rowsOf(child.uri), before_.rows);
    assert.equal((await names('roles')).includes('later'), false);
    assert.equal((await names('databases')).includes('later'), false);
    const there = await query(child.uri, 'select datname as name from pg_database union select rolname from pg_roles');
    assert.equal(
      there.some(({ name }) => name === 'later'),
      false,
    );
    const { child: now } = await create({ parent_timestamp: new Date().toISOString() });
    assert.equal((await coppice.must('GET', `${now.branch_path}/roles`)).roles.length, 2);
  });

  it('can be a parent at a point itself, from its birth on', async () => {
    const { child } = await create({ parent_lsn: marks[5]!.lsn });
    const first = await commit(child.uri);
    await commit(child.uri);
    const grandchild = await create({ parent_id: child.branch_id, parent_lsn: first.lsn });
    assert.equal(await rowsOf(grandchild.child.uri), first.rows);
    const { status, body } = await ask({ parent_id: child.branch_id, parent_timestamp: marks[6]!.time });
    assert.equal(status, 400, JSON.stringify(body));
  });

  for (const [what, branch, message] of [
    [
      'in the future',
      { parent_timestamp: '2999-01-01T00:00:00Z' },
      /no history at 2999-01-01T00:00:00.000Z: it reaches from .* to /,
    ],
    ['before its birth', { parent_timestamp: '2020-01-01T00:00:00Z' }, /reaches from .*LSN [0-9A-F]+\/[0-9A-F]+/],
    ['at an LSN to come', { parent_lsn: 'FFFF/0' }, /no history at LSN FFFF\/0/],
    ['at an LSN before all', { parent_lsn: '0/1' }, /no history at LSN 0\/1/],
    ['of two kinds', { parent_lsn: '0/1', parent_timestamp: '2020-01-01T00:00:00Z' }, /excludes/],
    ['that is no LSN', { parent_lsn: 'now' }, /must be an LSN/],
    ['on a day that is none', { parent_timestamp: '2026-02-31T10:00:00Z' }, /must be a time with its zone/],
    ['without a zone', { parent_timestamp: '2026-11-21T10:00:00' }, /must be a time with its zone/],
  ] as const) {
    it(`${what} is refused`, async () => {
      const { status, body } = await ask(branch);
      assert.equal(status, 400, JSON.stringify(body));
      assert.match(body.message, message);
    });
  }
});
