import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type ApiCallers, addCallers } from '../support/api-callers.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createReadyBranch, createSleepingProject, type TestProject } from '../support/project.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const GIB = 1024 ** 3;

const startOf = (length_ms: number, back: number) =>
  new Date((Math.floor(Date.now() / length_ms) - back) * length_ms).toISOString();
const monthsBack = (months: number) => {
  const now = new Date();
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - months)).toISOString();
};

describe('consumption', { timeout: 180_000 }, () => {
  let api: TestApi;
  let project: TestProject;
  let other: TestProject;
  let child: string;
  let org_id: string;
  let callers: ApiCallers;

  const rows = async (sql: string, values: unknown[] = []) => (await api.store.pool.query(sql, values)).rows;
  const use = (branch: string, at: string, used: Record<string, number>, of = project.id) =>
    rows(
      `select coppice.add_usage($1, $2, $3, ${Object.entries(used)
        .map(([name, value]) => `${name} => ${value}`)
        .join(', ')})`,
      [branch, of, at],
    );
  const hold = (branch: string, kind: string, bytes: number, at: string) =>
    rows('select coppice.set_storage($1, $2, $3, $4, $5)', [branch, project.id, kind, bytes, at]);

  const read = async (path: string, query: Record<string, string>, key?: string) => {
    const answer = await api.call('GET', `/consumption_history/${path}?${new URLSearchParams(query)}`, { key });
    return answer;
  };
  const must = async (...of: Parameters<typeof read>) => {
    const { status, body } = await read(...of);
    assert.equal(status, 200, JSON.stringify(body));
    return body;
  };
  const day = startOf(DAY_MS, 2);
  const dayAfter = startOf(DAY_MS, 1);
  const daily = { from: day, to: dayAfter, granularity: 'daily' };

  before(async () => {
    api = await startTestApi();
    [other, project] = [await createSleepingProject(api), await createSleepingProject(api)];
    child = (await createReadyBranch(api, project, { name: 'child' })).branch.id;
    await rows("update coppice.projects set created_at = created_at - interval '2 years'");
    await rows("update coppice.branches set created_at = created_at - interval '2 years'");
    const { body } = await api.call('GET', `/projects/${project.id}`);
    org_id = body.project.org_id;
    callers = await addCallers(api, body.project, other.id);
    const noon = new Date(Date.parse(day) + DAY_MS / 2).toISOString();
    const later = new Date(Date.parse(noon) + HOUR_MS).toISOString();
    await use(project.branch_id, noon, {
      active: 60_500_000,
      compute: 30_250_000,
      written: 1000,
      sent: 500,
      private: 100,
    });
    await use(project.branch_id, later, { active: 1_600_000, compute: 800_000 });
    await use(child, noon, { active: 10_000_000, compute: 20_000_000, sent: 7 });
    await hold(project.branch_id, 'root', GIB, noon);
    await hold(project.branch_id, 'logical', GIB, noon);
    await hold(project.branch_id, 'history', 1024, noon);
    await hold(child, 'child', 3600, later);
  });
  after(() => api?.close());

  it('of projects is told day by day, with its four metrics and others that are asked for', async () => {
    const { projects } = await must('projects', {
      ...daily,
      project_ids: project.id,
      metrics: 'logical_size_bytes,logical_size_bytes_hour,data_storage_bytes_hour',
    });
    assert.equal(projects.length, 1);
    const [{ project_id, periods }] = projects;
    assert.equal(project_id, project.id);
    assert.equal(periods.length, 1);
    assert.equal(periods[0].period_plan, 'self-hosted');
    assert.deepEqual(periods[0].consumption, [
      {
        timeframe_start: `${day.slice(0, 19)}Z`,
        timeframe_end: `${dayAfter.slice(0, 19)}Z`,
        active_time_seconds: 72,
        compute_time_seconds: 51,
        written_data_bytes: 1000,
        synthetic_storage_size_bytes: GIB + 1024 + 3600,
        data_storage_bytes_hour: 12 * (GIB + 1024) + 11 * 3600,
        logical_size_bytes: GIB,
        logical_size_bytes_hour: 12 * GIB,
      },
    ]);
  });

  it('of projects is told by the metrics of the second version, in the order in which they are asked for', async () => {
    const { projects } = await must('v2/projects', {
      ...{ ...daily, org_id, project_ids: project.id },
      metrics:
        'public_network_transfer_bytes,private_network_transfer_bytes,compute_unit_seconds,root_branch_bytes_month,child_branch_bytes_month,instant_restore_bytes_month,extra_branches_month,snapshot_storage_bytes_month',
    });
    assert.deepEqual(projects[0].periods[0].consumption[0].metrics, [
      { metric_name: 'public_network_transfer_bytes', value: 407 },
      { metric_name: 'private_network_transfer_bytes', value: 100 },
      { metric_name: 'compute_unit_seconds', value: 51 },
      { metric_name: 'root_branch_bytes_month', value: 12 * GIB },
      { metric_name: 'child_branch_bytes_month', value: 11 * 3600 },
      { metric_name: 'instant_restore_bytes_month', value: 12 * 1024 },
      { metric_name: 'extra_branches_month', value: 0 },
      { metric_name: 'snapshot_storage_bytes_month', value: 0 },
    ]);
  });

  it('of branches adds up to that of their project', async () => {
    const metrics = 'compute_unit_seconds,root_branch_bytes_month,child_branch_bytes_month';
    const { branches } = await must('v2/branches', { ...daily, org_id, project_ids: project.id, metrics });
    const value = (branch_id: string) => {
      const found = branches.find((branch: { branch_id: string }) => branch.branch_id === branch_id);
      return found.periods[0].consumption[0].metrics.map((metric: { value: number }) => metric.value);
    };
    assert.deepEqual(value(project.branch_id), [31, 12 * GIB, 0]);
    assert.deepEqual(value(child), [20, 0, 11 * 3600]);
    const one = await must('v2/branches', { ...daily, org_id, project_ids: project.id, branch_ids: child, metrics });
    assert.deepEqual(
      one.branches.map((branch: { branch_id: string }) => branch.branch_id),
      [child],
    );
  });

  it('of storage goes on through hours and days in which nothing changed, until now', async () => {
    const hourly = { from: startOf(HOUR_MS, 3), to: startOf(HOUR_MS, 0), granularity: 'hourly' };
    const metrics = 'root_branch_bytes_month';
    const { projects } = await must('v2/projects', { ...hourly, org_id, project_ids: project.id, metrics });
    const values = projects[0].periods.flatMap((period: { consumption: { metrics: { value: number }[] }[] }) =>
      period.consumption.map((frame) => frame.metrics[0]!.value),
    );
    assert.deepEqual(values, [GIB, GIB, GIB]);
    const tomorrow = new Date(Date.now() + DAY_MS).toISOString();
    const today = {
      from: startOf(DAY_MS, 0),
      to: tomorrow,
      granularity: 'daily',
      metrics,
      org_id,
      project_ids: project.id,
    };
    const before_ms = Date.now();
    const { projects: now } = await must('v2/projects', today);
    const passed_ms = (at_ms: number) => at_ms - Date.parse(today.from);
    const [{ value }] = now[0].periods.at(-1).consumption[0].metrics;
    assert.ok(value >= Math.floor((GIB * passed_ms(before_ms)) / HOUR_MS) - 1, String(value));
    assert.ok(value <= (GIB * passed_ms(Date.now() + 1000)) / HOUR_MS + 1, String(value));
  });

  it('of months is in a period of each, of which those that are over have an end', async () => {
    const metrics = 'compute_unit_seconds';
    const next = new Date(Date.now() + 31 * DAY_MS).toISOString();
    const query = { from: monthsBack(2), to: next, granularity: 'monthly', org_id, project_ids: project.id, metrics };
    const { periods } = (await must('v2/projects', query)).projects[0];
    assert.equal(periods.length, 3);
    const starts = periods.map((period: { period_start: string }) => period.period_start);
    assert.deepEqual(
      starts,
      [2, 1, 0].map((back) => `${monthsBack(back).slice(0, 19)}Z`),
    );
    assert.deepEqual(
      periods.map((period: { period_end?: string }) => period.period_end),
      [starts[1], starts[2], undefined],
    );
    assert.equal(new Set(periods.map((period: { period_id: string }) => period.period_id)).size, 3);
    const again = (await must('v2/projects', query)).projects[0].periods;
    assert.deepEqual(again, periods, 'ids of periods stay');
  });

  it('takes lists that are repeated, and such as are joined by commas', async () => {
    const metrics = ['compute_unit_seconds', 'extra_branches_month'];
    const base = new URLSearchParams({ ...daily, org_id }).toString();
    const repeated = [
      ...metrics.map((name) => `metrics=${name}`),
      `project_ids=${project.id}`,
      `project_ids=${other.id}`,
    ];
    const joined = [`metrics=${metrics.join(',')}`, `project_ids=${project.id},${other.id}`];
    const [one, two] = await Promise.all(
      [repeated, joined].map((list) => api.call('GET', `/consumption_history/v2/projects?${base}&${list.join('&')}`)),
    );
    assert.equal(one!.status, 200);
    assert.equal(one!.body.projects.length, 2);
    assert.deepEqual(one!.body, two!.body);
  });

  it('comes in pages: projects newest first, branches by project', async () => {
    const walk = async (path: string, list: string, query: Record<string, string>) => {
      const seen: string[] = [];
      for (let cursor: string | undefined; seen.length < 1000; ) {
        const body = await must(path, { ...query, limit: '1', ...(cursor && { cursor }) });
        if (body[list].length === 0) return seen;
        seen.push(body[list][0].branch_id ?? body[list][0].project_id);
        cursor = body.pagination.cursor;
      }
      return seen;
    };
    assert.deepEqual(await walk('projects', 'projects', { ...daily, org_id }), [project.id, other.id]);
    const ids = { project_ids: `${project.id},${other.id}`, metrics: 'compute_unit_seconds' };
    const branches = await walk('v2/branches', 'branches', { ...daily, org_id, ...ids });
    assert.deepEqual(branches.toSorted(), [child, project.branch_id, other.branch_id].toSorted());
  });

  it('of what was deleted stays', async () => {
    const gone = await createSleepingProject(api);
    await rows("update coppice.projects set created_at = created_at - interval '3 years' where id = $1", [gone.id]);
    await rows("update coppice.branches set created_at = created_at - interval '3 years' where project_id = $1", [
      gone.id,
    ]);
    await use(gone.branch_id, day, { active: 5_000_000, compute: 5_000_000 }, gone.id);
    await api.call('DELETE', `/projects/${gone.id}`);
    const query = { ...daily, org_id, project_ids: gone.id, metrics: 'compute_unit_seconds' };
    const [{ periods }] = (await must('v2/projects', query)).projects;
    assert.equal(periods[0].consumption[0].metrics[0].value, 5);
    const { branches } = await must('v2/branches', query);
    assert.equal(branches[0].periods[0].consumption[0].metrics[0].value, 5);
  });

  it('of branches stays when even their rows are forgotten', async () => {
    const gone = 'br-long-gone-12345678';
    const home = await createSleepingProject(api);
    await rows("update coppice.projects set created_at = created_at - interval '3 years' where id = $1", [home.id]);
    const before = startOf(DAY_MS, 5);
    const noon = new Date(Date.parse(day) + DAY_MS / 2).toISOString();
    await rows("select coppice.set_storage($1, $2, 'child', 1000, $3)", [gone, home.id, before]);
    await rows("select coppice.set_storage($1, $2, 'child', 0, $3)", [gone, home.id, noon]);
    await use(gone, day, { active: 5_000_000, compute: 5_000_000 }, home.id);
    const metrics = 'compute_unit_seconds,child_branch_bytes_month';
    const query = { ...daily, org_id, project_ids: home.id, metrics };
    const values = ({ periods }: { periods: { consumption: { metrics: { value: number }[] }[] }[] }) =>
      periods[0]!.consumption[0]!.metrics.map(({ value }) => value);
    assert.deepEqual(values((await must('v2/projects', query)).projects[0]), [5, 12_000]);
    const { branches } = await must('v2/branches', query);
    const ids = branches.map((branch: { branch_id: string }) => branch.branch_id);
    assert.deepEqual(ids, [gone, home.branch_id].toSorted());
    assert.deepEqual(values(branches[ids.indexOf(gone)]), [5, 12_000]);
    const after = await must('v2/branches', { ...query, cursor: ids[0]! });
    assert.deepEqual(
      after.branches.map((branch: { branch_id: string }) => branch.branch_id),
      [ids[1]],
    );
  });

  it('beyond what a granularity reaches is refused with 406', async () => {
    for (const [granularity, from] of [
      ['hourly', startOf(HOUR_MS, 169)],
      ['daily', startOf(DAY_MS, 61)],
      ['monthly', monthsBack(13)],
    ] as const) {
      const { status, body } = await read('projects', { from, to: new Date().toISOString(), granularity });
      assert.equal(status, 406, granularity);
      assert.match(body.message, /hourly of the last 168 hours/);
    }
    const backwards = await read('projects', { from: dayAfter, to: day, granularity: 'daily' });
    assert.equal(backwards.status, 406);
  });

  it('is refused without what it needs, and for metrics that it does not know', async () => {
    const metrics = 'compute_unit_seconds';
    const bad: [path: string, query: Record<string, string>][] = [
      ['v2/projects', { ...daily, metrics }],
      ['v2/projects', { ...daily, org_id }],
      ['v2/projects', { ...daily, org_id, metrics: '' }],
      ['v2/projects', { ...daily, org_id, metrics: 'active_time_seconds' }],
      ['v2/branches', { ...daily, org_id, metrics }],
      ['v2/branches', { ...daily, org_id, metrics: 'extra_branches_month', project_ids: project.id }],
      ['projects', { ...daily, metrics: 'compute_unit_seconds' }],
      ['projects', { ...daily, project_ids: 'A b' }],
      ['projects', { ...daily, project_ids: Array(101).fill(project.id).join(',') }],
      ['projects', { ...daily, granularity: 'weekly' }],
      ['projects', { ...daily, limit: '101' }],
    ];
    for (const [path, query] of bad) {
      const { status, body } = await read(path, query);
      assert.equal(status, 400, `${path} ${JSON.stringify(query)}: ${JSON.stringify(body)}`);
    }
  });

  it('is told to members and organization keys, to nobody else, and of nothing else', async () => {
    const query = { ...daily, org_id, metrics: 'compute_unit_seconds' };
    assert.equal((await read('v2/projects', query, callers.member)).status, 200);
    assert.equal((await read('v2/projects', query, callers.organization_key)).status, 200);
    const hidden = await read('v2/projects', query, callers.outsider);
    assert.deepEqual([hidden.status, hidden.body.message], [404, 'organization not found']);
    const scoped = await read('v2/projects', query, callers.project_key);
    assert.deepEqual([scoped.status, /outside the project/.test(scoped.body.message)], [404, true]);
    const theirs = (await api.call('GET', '/users/me/organizations', { key: callers.outsider })).body.organizations[0]
      .id;
    const foreign = { ...query, org_id: theirs, project_ids: project.id };
    assert.deepEqual((await must('v2/projects', foreign, callers.outsider)).projects, []);
    assert.deepEqual((await must('v2/branches', foreign, callers.outsider)).branches, []);
  });

  it('of this month is shown with a project and a branch, and nothing of the month before', async () => {
    const { store } = api.store;
    const now = new Date().toISOString();
    const fresh = await createSleepingProject(api);
    await use(fresh.branch_id, monthsBack(1), { active: 99_000_000, compute: 99_000_000 }, fresh.id);
    const shown = async () => {
      const { project: of } = (await api.call('GET', `/projects/${fresh.id}`)).body;
      const { branch } = (await api.call('GET', `/projects/${fresh.id}/branches/${fresh.branch_id}`)).body;
      return [of, branch].map((one) => [
        ...[one.active_time_seconds, one.compute_time_seconds, one.cpu_used_sec],
        ...[one.written_data_bytes, one.data_transfer_bytes],
      ]);
    };
    assert.deepEqual(await shown(), [
      [0, 0, 0, 0, 0],
      [0, 0, 0, 0, 0],
    ]);
    await use(
      fresh.branch_id,
      now,
      { active: 3_000_000, compute: 6_000_000, written: 7, sent: 8, received: 9 },
      fresh.id,
    );
    assert.deepEqual(await shown(), [
      [3, 6, 6, 7, 8],
      [3, 6, 6, 7, 8],
    ]);
    const { body } = await api.call('GET', `/projects?org_id=${org_id}&search=${fresh.id}`);
    assert.equal(body.projects[0].active_time, 3);
    await store.updateTable('project_usage').set({ storage_bytes: 4096 }).where('project_id', '=', fresh.id).execute();
    const changed = await api.call('PATCH', `/projects/${fresh.id}`, { body: { project: { name: 'renamed' } } });
    assert.deepEqual(
      [changed.body.project.active_time_seconds, changed.body.project.synthetic_storage_size],
      [3, 4096],
    );
  });
});
