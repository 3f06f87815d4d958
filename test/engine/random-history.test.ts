import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type Answer, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { connect, query } from '../support/customer.ts';
import {
  createLiveProject,
  dataDirectoryOf,
  type LiveProject,
  liveProject,
  postmasterPid,
} from '../support/live-project.ts';
import { seededRandom, testSeed } from '../support/random.ts';
import { until } from '../support/until.ts';

/**
 * Histories made at random, with every commit noted, and branches at points of them: each must hold exactly what was
 * committed at its point. COPPICE_TEST_ROUNDS=200 is the long mode; COPPICE_TEST_SEED repeats a failure.
 */
const ROUNDS = Number(process.env.COPPICE_TEST_ROUNDS ?? 1);
const STEPS = 40;
const ROWS = 30;

type Rows = ReadonlyMap<number, string>;

/** What a branch held after a commit, and where in its log and when that was. */
interface Mark {
  readonly rows: Rows;
  readonly lsn: string;
  readonly time: string;
}

interface Tree {
  readonly live: LiveProject;
  readonly marks: Mark[];
}

describe('a random history', { timeout: ROUNDS * 600_000 }, () => {
  const seed = testSeed();
  let coppice: TestCoppice;

  before(async () => {
    coppice = await startCoppice({ env: { COPPICE_SNAPSHOT_WAL_BYTES: '3MB' } });
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
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
    await query(live.uri, 'create table held (id int primary key, value text not null)');
    this.#trees.push({ live, marks: [] });
    await this.#commit(this.#trees[0]!);
  }

  async step(): Promise<void> {
    const tree = this.#trees[this.#below(this.#trees.length)]!;
    const dice = this.#random();
    if (dice < 0.62) await this.#commit(tree);
    else if (dice < 0.7) await this.#abort(tree);
    else if (dice < 0.82) await this.#during(tree, 'fill', () => this.#fill(tree));
    else if (dice < 0.87) await this.#during(tree, 'suspend', () => this.#suspend(tree));
    else if (dice < 0.92) await this.#during(tree, 'kill', () => this.#kill(tree));
    else if (dice < 0.97) await this.#branch(tree.live.branch_id, tree.marks);
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
    const { rows: at } = await client.query(
      `select pg_current_wal_insert_lsn()::text as lsn,
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

  async #suspend({ live }: Tree): Promise<void> {
    await this.#insist(`${live.endpoint_path}/suspend`);
  }

  async #kill({ live }: Tree): Promise<void> {
    process.kill(await postmasterPid(await dataDirectoryOf(live.uri)), 'SIGKILL');
  }

  async #branch(parent_id: string, marks: readonly Mark[]): Promise<void> {
    if (this.#trees.length >= 6) return;
    const mark = marks[this.#below(marks.length)]!;
    const point = this.#random() < 0.5 ? { parent_lsn: mark.lsn } : { parent_timestamp: mark.time };
    const request = { branch: { parent_id, ...point }, endpoints: [{ type: 'read_write' }] };
    const created = await this.#insist(`${this.project.path}/branches`, request);
    const live = liveProject(this.#coppice, created);
    const what = `${live.branch_id} of ${parent_id} at ${JSON.stringify(point)}`;
    this.#told.push(`branch ${what}`);
    await this.#expect(live.uri, mark.rows, what);
    const tree: Tree = { live, marks: [] };
    this.#trees.push(tree);
    await this.#commitOn(tree, mark.rows);
  }

  /** The first commit of a history that begins with rows. */
  async #commitOn(tree: Tree, rows: Rows): Promise<void> {
    tree.marks.push({ rows, lsn: '0/0', time: '' });
    await this.#commit(tree);
    tree.marks.shift();
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
    await this.#expect(live.uri, mark.rows, `restored to ${mark.lsn}`);
    await this.#branch(branch.parent_id, marks.splice(0));
    await this.#commitOn(tree, mark.rows);
  }

  async #expect(uri: string, rows: Rows, what: string): Promise<void> {
    const found = await query(uri, 'select id, value from held order by id');
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
  async #insist(path: string, body?: object): Promise<Answer['body']> {
    let answer = await this.#coppice.call('POST', path, body);
    await until(
      async () => {
        if (answer.status === 423) answer = await this.#coppice.call('POST', path, body);
        return answer.status !== 423;
      },
      { what: `${path} to be free` },
    );
    assert.ok(answer.status < 300, `${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    await this.#coppice.settled(this.project.id);
    return answer.body;
  }

  #below(bound: number): number {
    return Math.floor(this.#random() * bound);
  }
}
