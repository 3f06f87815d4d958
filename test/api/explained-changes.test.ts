import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { type CallAnswer, startSecondApi, startTestApi, type TestApi } from '../support/api-server.ts';
import { branchModel, type Deed, type DoneDeed, wasPutOff } from '../support/branch-model.ts';
import { type Effect, type EffectEngine, startEffectEngine } from '../support/effect-engine.ts';
import { createSleepingProject, type TestProject } from '../support/project.ts';
import { seededRandom, testSeed } from '../support/random.ts';
import { findSerialOrder } from '../support/serial-order.ts';
import { until } from '../support/until.ts';
import { untilEventsShow } from '../support/until-events-show.ts';

const CALLERS = 6;
const DEEDS_EACH = 30;
const NAMES = ['a', 'b', 'c', 'd'];
const KEYS = 4;

interface Claimed {
  readonly id: string;
  readonly status: string;
  readonly action: string;
  readonly endpoint_id: string | null;
  readonly claims_exclusive: readonly string[];
  readonly claims_shared: readonly string[];
}

describe('what callers do to a project at once, in two processes and with two engines', { timeout: 240_000 }, () => {
  let api: TestApi;
  let other: TestApi;
  let project: TestProject;
  let org_id: string;
  const engines: EffectEngine[] = [];
  const effects: Effect[] = [];
  let clock = 0;
  const tick = () => {
    clock += 1;
    return clock;
  };
  before(async () => {
    api = await startTestApi();
    other = await startSecondApi(api);
    project = await createSleepingProject(api);
    org_id = (await api.call('GET', `/projects/${project.id}`)).body.project.org_id;
    for (const name of ['one', 'two']) engines.push(await startEffectEngine(api, { name, effects, tick }));
  });
  after(async () => {
    await Promise.all(engines.map((engine) => engine.stop()));
    await other?.close();
    await api?.close();
  });

  const root = () => `/projects/${project.id}`;
  const makeKeys = () =>
    Promise.all(
      Array.from({ length: KEYS }, async (_, count) => {
        const body = { key_name: `key ${count}`, project_id: project.id };
        return (await api.call('POST', `/organizations/${org_id}/api_keys`, { body })).body as {
          id: number;
          key: string;
        };
      }),
    );

  /** How a deed is asked for. */
  const request = (deed: Deed, endpoints: ReadonlyMap<string, string>) => {
    const branch = 'id' in deed ? `${root()}/branches/${deed.id}` : '';
    const compute = 'id' in deed ? `${root()}/endpoints/${endpoints.get(deed.id)}` : '';
    switch (deed.does) {
      case 'create': {
        const made = { name: deed.name, parent_id: project.branch_id };
        const body = { branch: made, endpoints: [{ type: 'read_write' }] };
        return { method: 'POST', path: `${root()}/branches`, body } as const;
      }
      case 'rename':
        return { method: 'PATCH', path: branch, body: { branch: { name: deed.name } } } as const;
      case 'protect':
        return { method: 'PATCH', path: branch, body: { branch: { protected: deed.to } } } as const;
      case 'delete':
        return { method: 'DELETE', path: branch } as const;
      case 'set_as_default':
        return { method: 'POST', path: `${branch}/set_as_default` } as const;
      case 'restore':
        return { method: 'POST', path: `${branch}/restore`, body: { source_branch_id: project.branch_id } } as const;
      case 'start':
      case 'suspend':
        return { method: 'POST', path: `${compute}/${deed.does}` } as const;
      case 'show':
        return { method: 'GET', path: branch } as const;
      case 'list':
        return { method: 'GET', path: `${root()}/branches` } as const;
      case 'revoke':
        return { method: 'DELETE', path: `/organizations/${org_id}/api_keys/${deed.key_id}` } as const;
      case 'use':
        return { method: 'GET', path: root() } as const;
    }
  };

  /** Several callers, each of whom does one thing after the other, at either process. */
  const hammer = async (random: () => number, keys: readonly { id: number; key: string }[]): Promise<DoneDeed[]> => {
    const done: DoneDeed[] = [];
    /** Of each branch that was made, whether it is there yet or not. */
    const endpoints = new Map<string, string>();
    const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
    const choose = (): Deed => {
      const id = pick([...endpoints.keys()].slice(-NAMES.length - 1));
      if (id === undefined || random() < 0.15) return { does: 'create', name: pick(NAMES) };
      const key_id = String(pick(keys).id);
      return pick<Deed>([
        { does: 'create', name: pick(NAMES) },
        { does: 'rename', id, name: pick(NAMES) },
        { does: 'protect', id, to: random() < 0.4 },
        { does: 'delete', id },
        { does: 'delete', id },
        { does: 'set_as_default', id },
        { does: 'restore', id },
        { does: 'start', id },
        { does: 'suspend', id },
        { does: 'show', id },
        { does: 'list' },
        { does: random() < 0.15 ? 'revoke' : 'use', key_id },
      ]);
    };
    const caller = async () => {
      for (let count = 0; count < DEEDS_EACH; count += 1) {
        const deed = choose();
        const at = pick([api, other]);
        const { method, path, ...sent } = request(deed, endpoints);
        const request_id = randomUUID();
        const key = deed.does === 'use' ? keys.find(({ id }) => String(id) === deed.key_id)!.key : undefined;
        const began = tick();
        const headers = { 'x-request-id': request_id };
        const answer: CallAnswer = await at.call(method, path, { ...sent, headers, ...(key && { key }) });
        done.push({ deed, answer, request_id, began, ended: tick() });
        if (answer.status === 201) endpoints.set(answer.body.branch.id, answer.body.endpoints[0].id);
      }
    };
    await Promise.all(Array.from({ length: CALLERS }, caller));
    return done;
  };

  const operations = async (): Promise<Claimed[]> => {
    const { rows } = await api.store.pool.query(
      `select id, status, action, endpoint_id, claims_exclusive, claims_shared
       from coppice.operations where project_id = $1 order by created_at`,
      [project.id],
    );
    return rows;
  };
  const untilQuiet = () =>
    until(
      async () => (await operations()).every(({ status }) => ['finished', 'cancelled', 'skipped'].includes(status)),
      { what: 'the operations to end', timeout_ms: 60_000 },
    );
  const succeeded = ({ answer: { status } }: DoneDeed) => status === 200 || status === 201;

  it('is answered as if one thing had been done after the other, and done once', async (t) => {
    const seed = testSeed();
    t.diagnostic(`COPPICE_TEST_SEED=${seed}`);
    const before_operations = new Set((await operations()).map(({ id }) => id));
    await untilEventsShow(api);
    const { next } = (await api.call('GET', `/events?project_id=${project.id}&limit=1000`)).body;
    const keys = await makeKeys();
    const done = await hammer(seededRandom(seed), keys);
    await untilQuiet();
    for (const at of [api, other]) {
      const answer = await at.call('GET', `${root()}/branches`);
      done.push({ deed: { does: 'list' }, answer, request_id: '', began: tick(), ended: tick() });
    }

    const { left } = findSerialOrder(
      done,
      branchModel({
        branches: { [project.branch_id]: { name: 'main', protected: false } },
        default_id: project.branch_id,
        keys: Object.fromEntries(keys.map(({ id }) => [id, true])),
      }),
    );
    const told = left.map(({ deed, answer, began, ended }) => ({
      ...{ began, ended, deed, status: answer.status, message: answer.body?.message },
    }));
    assert.deepEqual(told, [], `seed ${seed}: no order explains these answers`);
    // Else it would explain anything.
    assert.ok(done.filter((one) => !wasPutOff(one)).length > done.length / 2, 'most were answered, not put off');

    await checkOperations(done, before_operations);
    await checkEvents(done, next);
    await checkAuditLog(done);
  });

  async function checkOperations(done: readonly DoneDeed[], older: ReadonlySet<string>): Promise<void> {
    const rows = (await operations()).filter(({ id }) => !older.has(id));
    const kept = new Map(rows.map((row) => [row.id, row]));
    const told = new Set(
      done
        .filter(succeeded)
        .flatMap(({ answer }) => (answer.body.operations ?? []).map(({ id }: { id: string }) => id)),
    );
    for (const id of told) assert.ok(kept.has(id as string) || older.has(id as string), `operation ${id} is lost`);
    for (const { id, status, action } of rows) {
      // Whoever starts a compute that is deleted meanwhile is told that it is not there.
      assert.ok(told.has(id) || status === 'cancelled', `nobody was told of ${action} ${id}`);
      const runs = effects.filter(({ operation_id }) => operation_id === id);
      if (status === 'finished') assert.equal(runs.length, 1, `${action} ${id} was run ${runs.length} times`);
      else assert.ok(runs.length <= 1, `${action} ${id} was run ${runs.length} times`);
    }
    assert.equal(new Set(effects.map(({ engine }) => engine)).size, 2, 'both engines had something to do');
    checkConflicts(kept);
  }

  /** Two that need something for themselves were never run at the same time. */
  function checkConflicts(kept: ReadonlyMap<string, Claimed>): void {
    const shares = (one: readonly string[], two: readonly string[]) => one.some((claim) => two.includes(claim));
    const run = effects.flatMap((effect) => {
      const row = kept.get(effect.operation_id);
      return row && effect.ended !== undefined ? [{ ...effect, ended: effect.ended, row }] : [];
    });
    for (const one of run) {
      for (const two of run) {
        if (two.began <= one.began || two.began > one.ended) continue;
        const conflict =
          shares(one.row.claims_exclusive, [...two.row.claims_exclusive, ...two.row.claims_shared]) ||
          shares(one.row.claims_shared, two.row.claims_exclusive);
        assert.equal(conflict, false, `${one.row.action} and ${two.row.action} ran at once`);
      }
    }
  }

  async function checkEvents(done: readonly DoneDeed[], after_id: string): Promise<void> {
    await untilEventsShow(api);
    const seen: { type: string; subject_id: string }[] = [];
    for (let next = after_id; ; ) {
      const { body } = await api.call('GET', `/events?project_id=${project.id}&limit=1000&after=${next}`);
      if (body.events.length === 0) break;
      seen.push(...body.events);
      next = body.next;
    }
    const subjects = (type: string) => seen.flatMap((event) => (event.type === type ? [event.subject_id] : [])).sort();
    const ids = (does: Deed['does'], status: number) =>
      done.flatMap(({ deed, answer }) =>
        deed.does === does && answer.status === status ? [answer.body.branch.id as string] : [],
      );
    assert.deepEqual(subjects('branch.created'), ids('create', 201).sort());
    assert.deepEqual(subjects('branch.deleted'), ids('delete', 200).sort());
  }

  async function checkAuditLog(done: readonly DoneDeed[]): Promise<void> {
    const rows = await api.store.store.selectFrom('audit_log').select('request_id').execute();
    const entries = Map.groupBy(rows, ({ request_id }) => request_id);
    for (const one of done) {
      const { does } = one.deed;
      const count = entries.get(one.request_id)?.length ?? 0;
      const changes = ['create', 'delete', 'revoke', 'restore'].includes(does) && succeeded(one);
      if (changes) assert.equal(count, 1, `${does} has ${count} entries`);
      else if (!succeeded(one) || ['show', 'list', 'use'].includes(does)) assert.equal(count, 0, does);
      else assert.ok(count <= 1, `${does} has ${count} entries`);
    }
  }
});
