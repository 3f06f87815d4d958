import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { parseLsn } from '../../src/domain/lsn.ts';
import { type Answer, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { type CustomerClient, connect, query } from '../support/customer.ts';
import { cannotMount, mountFilesystem, type TestFilesystem } from '../support/filesystem.ts';
import {
  createLiveProject,
  dataDirectoryOf,
  type LiveProject,
  liveProject,
  postmasterPid,
} from '../support/live-project.ts';
import { seededRandom, testSeed } from '../support/random.ts';
import { copyStartedDirectory } from '../support/started-directory.ts';
import { until } from '../support/until.ts';

/**
 * Histories made at random, with every commit noted, and branches at points of them: each must hold exactly what was
 * committed at its point. COPPICE_TEST_ROUNDS=200 is the long mode; COPPICE_TEST_SEED repeats a failure.
 */
const ROUNDS = Number(process.env.COPPICE_TEST_ROUNDS ?? 1);
const STEPS = 36;
const ROWS = 30;
const BULK = -1;
/** Coppice runs here; servers tell their times in UTC. */
const HOST_ZONE = 'America/St_Johns';

type Rows = ReadonlyMap<number, string>;

/** What a branch held after a commit, and where in its log and when that was. `BULK` stands for the rows of `bulk`. */
interface Mark {
  readonly rows: Rows;
  readonly lsn: string;
  readonly time: string;
}

interface Tree {
  readonly live: LiveProject;
  readonly marks: Mark[];
  /** Undefined for roots, and where the parent is none of the trees any more. */
  parent?: Tree;
  /** Its branch has no parent, and so can have snapshots. */
  root?: boolean;
  /** Connection string of its read replica, once it has one. */
  replica?: string;
}

const seed = testSeed();
/** Two on which copies share their blocks, each in its own way. A short run is on one of them, as the seed says. */
const SHARING = ROUNDS > 1 ? (['xfs', 'btrfs'] as const) : [seed % 2 === 0 ? ('xfs' as const) : ('btrfs' as const)];

for (const kind of ['tmpdir', ...SHARING] as const) {
  const skip = kind === 'tmpdir' ? false : cannotMount;
  // What the temporary directory lies on is mostly ext4.
  const place = kind === 'tmpdir' ? 'where temporary files are' : `on ${kind}`;
  describe(`a random history ${place}`, { timeout: ROUNDS * 600_000, skip }, () => {
    let filesystem: TestFilesystem | undefined;
    let coppice: TestCoppice;

    before(async () => {
      if (kind !== 'tmpdir') filesystem = await mountFilesystem(kind, 6 * 1024 ** 3);
      const data_directory = filesystem && join(filesystem.path, 'd');
      if (data_directory) await copyStartedDirectory(data_directory);
      // On one of them whatever is replayed is replayed by the compute that serves it.
      const COPPICE_SERVE_REPLAY_BYTES = kind === 'btrfs' ? '1kB' : '32MB';
      coppice = await startCoppice({
        data_directory,
        env: {
          ...{ COPPICE_SNAPSHOT_WAL_BYTES: '3MB', COPPICE_SNAPSHOT_INTERVAL_SECONDS: '15' },
          ...{ COPPICE_SERVE_REPLAY_BYTES, TZ: HOST_ZONE },
        },
      });
    });
    after(async () => {
      await coppice?.stop();
      if (filesystem) await filesystem.remove();
      else if (coppice) await removeDataDirectory(coppice.data_directory);
    });

    for (let round = 0; round < ROUNDS; round++) {
      it(`is found again by its points, with COPPICE_TEST_SEED=${seed + round}`, async () => {
        const history = new RandomHistory(coppice, seededRandom(seed + round));
        await history.begin();
        for (let step = 0; step < STEPS; step++) await history.step();
        await history.check();
        await coppice.must('DELETE', history.project.path);
      });
    }
  });
}

class RandomHistory {
  readonly #coppice: TestCoppice;
  readonly #random: () => number;
  readonly #trees: Tree[] = [];
  readonly #told: string[] = [];

  constructor(coppice: TestCoppice, random: () => number) {
    this.#coppice = coppice;
    this.#random = random;
  }

  get project(): LiveProject {
    return this.#trees[0]!.live;
  }

  async begin(): Promise<void> {
    const live = await createLiveProject(this.#coppice);
    await query(live.uri, 'create table held (id int primary key, value text not null); create table bulk (text text)');
    this.#trees.push({ live, marks: [], root: true });
    await this.#commit(this.#trees[0]!);
  }

  async step(): Promise<void> {
    const tree = this.#trees[this.#below(this.#trees.length)]!;
    const dice = this.#random();
    if (dice < 0.5) await this.#commit(tree);
    else if (dice < 0.56) await this.#abort(tree);
    else if (dice < 0.64) await this.#during(tree, 'fill', () => this.#fill(tree));
    else if (dice < 0.69) await this.#during(tree, 'bulk', () => this.#bulk(tree));
    else if (dice < 0.74) await this.#during(tree, 'suspend', () => this.#suspend(tree));
    else if (dice < 0.79) await this.#during(tree, 'kill', () => this.#kill(tree));
    else if (dice < 0.83) await this.#during(tree, 'thin', () => this.#thin());
    else if (dice < 0.87) await this.#during(tree, 'replica', () => this.#replica(tree));
    else if (dice < 0.92) await this.#branch(tree.live.branch_id, tree.marks, tree);
    else if (dice < 0.95) await this.#snapshot(this.#trees.find(({ root }) => root) ?? tree);
    else if (dice < 0.975) await this.#reset(tree);
    else await this.#restore(tree);
  }

  /** Every branch still holds what was last committed on it. */
  async check(): Promise<void> {
    for (const tree of this.#trees) await this.#expect(tree.live.uri, tree.marks.at(-1)!.rows, 'at the end');
  }

  /** One transaction of a few changes. */
  async #commit({ live, marks }: Tree): Promise<void> {
    const rows = new Map(marks.at(-1)?.rows);
    await using client = await connect(live.uri);
    await client.query('begin');
    for (let change = 1 + this.#below(4); change > 0; change--) {
      const id = this.#below(ROWS);
      if (this.#random() < 0.25) {
        rows.delete(id);
        await client.query('delete from held where id = $1', [id]);
        continue;
      }
      const value = String.fromCharCode(97 + this.#below(26)).repeat(1 + this.#below(6000));
      rows.set(id, value);
      await client.query('insert into held values ($1, $2) on conflict (id) do update set value = excluded.value', [
        id,
        value,
      ]);
    }
    await client.query('commit');
    await this.#mark({ live, marks }, rows, client);
  }

  async #mark({ live, marks }: Pick<Tree, 'live' | 'marks'>, rows: Rows, client: CustomerClient): Promise<void> {
    const { rows: at } = await client.query(
      // What was only inserted, as a hint is by the one who reads, may be lost when the server is killed.
      `select pg_current_wal_flush_lsn()::text as lsn,
         to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as time`,
    );
    marks.push({ rows, ...at[0] });
    this.#told.push(`${live.branch_id} commit ${at[0].lsn}`);
  }

  async #abort({ live }: Tree): Promise<void> {
    await using client = await connect(live.uri);
    await client.query('begin');
    await client.query("update held set value = 'never'");
    await client.query('rollback');
  }

  /** Log that holds no rows: segments are finished and archived. */
  async #fill({ live }: Tree): Promise<void> {
    const sizes = Array.from({ length: 1 + this.#below(4) }, () => 400_000 + this.#below(500_000));
    for (const size of sizes)
      await query(live.uri, "select pg_logical_emit_message(true, 'fill', repeat('x', $1))", [size]);
  }

  /** The branch becomes much larger, or small again: those made at an earlier point are smaller or larger than it. */
  async #bulk({ live, marks }: Tree): Promise<void> {
    const rows = new Map(marks.at(-1)!.rows);
    await using client = await connect(live.uri);
    if (rows.delete(BULK)) {
      await client.query('truncate bulk');
    } else {
      const count = 1000 + this.#below(3000);
      rows.set(BULK, 'b'.repeat(count));
      await client.query("insert into bulk select repeat('bulk', 200) from generate_series(1, $1)", [count]);
    }
    await this.#mark({ live, marks }, rows, client);
  }

  async #suspend({ live }: Tree): Promise<void> {
    await this.#insist(`${live.endpoint_path}/suspend`);
  }

  async #kill({ live }: Tree): Promise<void> {
    process.kill(await postmasterPid(await dataDirectoryOf(live.uri)), 'SIGKILL');
  }

  /** All snapshots but the newest of each timeline become two hours older; then those that stand too close go. */
  async #thin(): Promise<void> {
    const { id, path } = this.project;
    await this.#coppice.ownDatabase(`
      update coppice.timeline_snapshots older set taken_at = older.taken_at - interval '2 hours'
      from coppice.timelines where timelines.id = older.timeline_id and timelines.project_id = '${id}' and exists (
        select from coppice.timeline_snapshots newer
        where newer.timeline_id = older.timeline_id and newer.taken_at > older.taken_at
      )`);
    // Another window is what makes it look at once.
    const history_retention_seconds = 86_400 - this.#told.length;
    await this.#insist(path, { project: { history_retention_seconds } }, 'PATCH');
  }

  /** A replica holds what was committed on its primary as soon as it has replayed so far. */
  async #replica(tree: Tree): Promise<void> {
    const { live, marks } = tree;
    if (!tree.replica) {
      const wanted = { endpoint: { branch_id: live.branch_id, type: 'read_only' } };
      const { endpoint } = await this.#insist(`${this.project.path}/endpoints`, wanted);
      tree.replica = live.uri.replaceAll(live.endpoint_id, endpoint.id);
    }
    const { lsn, rows } = marks.at(-1)!;
    const uri = tree.replica;
    const replayed = async () => {
      const [at] = await query(uri, 'select pg_last_wal_replay_lsn()::text as lsn');
      return parseLsn(at.lsn) >= parseLsn(lsn);
    };
    await until(replayed, { what: `the replica of ${live.branch_id} to be at ${lsn}`, timeout_ms: 60_000 });
    await this.#expect(uri, rows, `the replica of ${live.branch_id} at ${lsn}`);
  }

  async #branch(parent_id: string, marks: readonly Mark[], parent?: Tree): Promise<void> {
    if (this.#trees.length >= 6) return;
    const mark = marks[this.#below(marks.length)]!;
    const point =
      this.#random() < 0.5 ? { parent_lsn: mark.lsn } : { parent_timestamp: inSomeZone(mark.time, this.#random()) };
    const request = { branch: { parent_id, ...point }, endpoints: [{ type: 'read_write' }] };
    const created = await this.#insist(`${this.project.path}/branches`, request);
    const live = liveProject(this.#coppice, created);
    const what = `${live.branch_id} of ${parent_id} at ${JSON.stringify(point)}`;
    this.#told.push(`branch ${what}`);
    await this.#expect(live.uri, mark.rows, what);
    const tree: Tree = { live, marks: [], parent };
    this.#trees.push(tree);
    await this.#commitOn(tree, mark.rows);
  }

  /** A history begins with the first snapshot, which some branches have only after they are there. */
  async #floor({ live }: Tree): Promise<void> {
    const floor = `select from coppice.timeline_snapshots s join coppice.branches b using (timeline_id)
      where b.id = '${live.branch_id}' and s.volume is not null`;
    const begun = async () => (await this.#coppice.ownDatabase(floor)).rows.length > 0;
    await until(begun, { what: `a history of ${live.branch_id}`, timeout_ms: 60_000 });
  }

  /** The first commit of a history that begins with rows. */
  async #commitOn(tree: Tree, rows: Rows): Promise<void> {
    await this.#floor(tree);
    tree.marks.push({ rows, lsn: '0/0', time: '' });
    await this.#commit(tree);
    tree.marks.shift();
  }

  /** Kept as it is or was, changed, and looked at as it was kept: another root, which goes again where there are enough. */
  async #snapshot(tree: Tree): Promise<void> {
    const { live, marks } = tree;
    if (!tree.root) return this.#commit(tree);
    const present = this.#random() < 0.5;
    const mark = present ? marks.at(-1)! : marks[this.#below(marks.length)]!;
    const request = present ? {} : { lsn: mark.lsn };
    const { snapshot } = await this.#insist(`${live.branch_path}/snapshot`, request);
    const what = `snapshot of ${live.branch_id} at ${mark.lsn}`;
    this.#told.push(what);
    await this.#commit(tree);
    const path = `${this.project.path}/snapshots/${snapshot.id}`;
    const restored = await this.#insist(`${path}/restore`, {});
    const uri = live.uri.replaceAll(live.endpoint_id, restored.endpoints[0].id);
    await this.#expect(uri, mark.rows, what);
    await this.#insist(path, undefined, 'DELETE');
    const more = { roles: [{ name: live.role }], databases: [{ name: live.database }] };
    const made = liveProject(this.#coppice, { ...restored, ...more, connection_uris: [{ connection_uri: uri }] });
    if (this.#trees.length >= 6) {
      await this.#insist(made.branch_path, undefined, 'DELETE');
      return;
    }
    const another: Tree = { live: made, marks: [], root: true };
    this.#trees.push(another);
    await this.#commitOn(another, mark.rows);
  }

  /** To a point of its own past; the branch that keeps what it was can be a parent at any earlier point. */
  async #restore(tree: Tree): Promise<void> {
    const { live, marks } = tree;
    const mark = marks[this.#below(marks.length)]!;
    this.#told.push(`restore ${live.branch_id} to ${mark.lsn}`);
    const { branch } = await this.#insist(`${live.branch_path}/restore`, {
      ...{ source_branch_id: live.branch_id, source_lsn: mark.lsn },
      preserve_under_name: `was ${this.#told.length}`,
    });
    this.#leave(tree);
    tree.parent = undefined;
    tree.root = false;
    await this.#expect(live.uri, mark.rows, `restored to ${mark.lsn}`);
    await this.#branch(branch.parent_id, marks.splice(0));
    await this.#commitOn(tree, mark.rows);
  }

  /** To what its parent holds now. */
  async #reset(tree: Tree): Promise<void> {
    const { live, marks, parent } = tree;
    if (!parent) return this.#commit(tree);
    const { rows } = parent.marks.at(-1)!;
    this.#told.push(`reset ${live.branch_id} to ${parent.live.branch_id}`);
    await this.#insist(`${live.branch_path}/restore`, {
      source_branch_id: parent.live.branch_id,
      preserve_under_name: `was ${this.#told.length}`,
    });
    this.#leave(tree);
    await this.#expect(live.uri, rows, `reset to ${parent.live.branch_id}`);
    marks.length = 0;
    await this.#commitOn(tree, rows);
  }

  /** Its children are those of the branch that keeps what it was. */
  #leave(tree: Tree): void {
    for (const child of this.#trees) if (child.parent === tree) child.parent = undefined;
  }

  async #expect(uri: string, rows: Rows, what: string): Promise<void> {
    const found = await query(
      uri,
      `select id, value from held union all
       select ${BULK}, repeat('b', count(*)::int) from bulk having count(*) > 0 order by id`,
    );
    const expected = [...rows].sort(([a], [b]) => a - b).map(([id, value]) => ({ id, value }));
    assert.deepEqual(
      found.map(({ id, value }) => `${id} ${value.length} ${value[0]}`),
      expected.map(({ id, value }) => `${id} ${value.length} ${value[0]}`),
      `${what}\n${this.#told.join('\n')}`,
    );
  }

  async #during(tree: Tree, what: string, body: () => Promise<unknown>): Promise<void> {
    this.#told.push(`${tree.live.branch_id} ${what}`);
    await body();
  }

  /** Asks again while something else goes on, such as the start after a kill, and waits for the end. */
  async #insist(path: string, body?: object, method = 'POST'): Promise<Answer['body']> {
    let answer = await this.#coppice.call(method, path, body);
    await until(
      async () => {
        if (answer.status === 423) answer = await this.#coppice.call(method, path, body);
        return answer.status !== 423;
      },
      { what: `${path} to be free` },
    );
    if (answer.status >= 300) {
      const told = this.#coppice.output().slice(-2000);
      assert.fail(`${path}: ${answer.status} ${JSON.stringify(answer.body)}\n${told}`);
    }
    await this.#coppice.settled(this.project.id);
    return answer.body;
  }

  #below(bound: number): number {
    return Math.floor(this.#random() * bound);
  }
}

/** The same time with another offset, to the microsecond. */
function inSomeZone(time: string, random: number): string {
  const [offset, minutes] = (
    [
      ['Z', 0],
      ['+05:30', 330],
      ['-03:30', -210],
    ] as const
  )[Math.floor(random * 3)]!;
  const there = new Date(Date.parse(time) + minutes * 60_000).toISOString();
  // A Date has milliseconds only.
  return there.slice(0, 19) + time.slice(19, 26) + offset;
}
