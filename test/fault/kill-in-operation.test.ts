import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import pg from 'pg';
import { makeStartedDirectory, type TestCoppice } from '../support/coppice.ts';
import { type KilledCoppice, killedCoppice } from '../support/killed-coppice.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);

interface Base {
  readonly project_id: string;
  readonly endpoint_id: string;
  readonly branch_id: string;
  readonly uri: string;
}

/** Something that starts an operation; what it answers does not matter, since the process may be gone before. */
type Trigger = (coppice: TestCoppice, base: Base) => Promise<unknown>;

const newProject: Trigger = (coppice) => coppice.call('POST', '/projects', { project: { name: 'second' } });
const newBranch: Trigger = (coppice, { project_id }) =>
  coppice.call('POST', `/projects/${project_id}/branches`, { endpoints: [{ type: 'read_write' }] });
const newSchemaBranch: Trigger = (coppice, { project_id }) =>
  coppice.call('POST', `/projects/${project_id}/branches`, {
    branch: { init_source: 'schema-only' },
    endpoints: [{ type: 'read_write' }],
  });
const newRole: Trigger = (coppice, { project_id, branch_id }) =>
  coppice.call('POST', `/projects/${project_id}/branches/${branch_id}/roles`, { role: { name: `r${Date.now()}` } });
const suspend: Trigger = (coppice, { project_id, endpoint_id }) =>
  coppice.call('POST', `/projects/${project_id}/endpoints/${endpoint_id}/suspend`);
let windows = 0;
/** Another one each time: the same again would be no operation. */
const newWindow: Trigger = (coppice, { project_id }) =>
  coppice.call('PATCH', `/projects/${project_id}`, { project: { history_retention_seconds: 3600 + ++windows } });

/** Makes something, waits for it, then deletes it. */
const deletedBranch: Trigger = async (coppice, base) => {
  const { branch } = await coppice.must('POST', `/projects/${base.project_id}/branches`, {
    endpoints: [{ type: 'read_write' }],
  });
  await coppice.settled(base.project_id);
  return coppice.call('DELETE', `/projects/${base.project_id}/branches/${branch.id}?hard_delete=true`);
};
const deletedProject: Trigger = async (coppice) => {
  const { project } = await coppice.must('POST', '/projects', { project: { name: 'third' } });
  await coppice.settled(project.id);
  return coppice.call('DELETE', `/projects/${project.id}`);
};

const CASES: readonly { readonly points: readonly string[]; readonly trigger: Trigger }[] = [
  {
    points: ['create_timeline:begin', 'create_timeline:cloned', 'create_timeline:made', 'create_timeline:end'],
    trigger: newProject,
  },
  {
    points: [
      'create_branch:begin',
      'create_branch:copied',
      'create_branch:cloned',
      'create_branch:quiet',
      'create_branch:prepared',
      'create_branch:end',
    ],
    trigger: newBranch,
  },
  {
    points: [
      'apply_schema_from_branch:begin',
      'apply_schema_from_branch:cloned',
      'apply_schema_from_branch:filled',
      'apply_schema_from_branch:ready',
      'apply_schema_from_branch:end',
    ],
    trigger: newSchemaBranch,
  },
  { points: ['start_compute:started', 'start_compute:end'], trigger: newBranch },
  { points: ['apply_config:running', 'apply_config:applied', 'apply_config:end'], trigger: newRole },
  { points: ['suspend_compute:stopping', 'suspend_compute:stopped', 'suspend_compute:end'], trigger: suspend },
  { points: ['apply_storage_config:begin', 'apply_storage_config:end'], trigger: newWindow },
  { points: ['delete_timeline:stopped', 'delete_timeline:deleted', 'delete_timeline:end'], trigger: deletedBranch },
  { points: ['delete_tenant:stopped', 'delete_tenant:purged', 'delete_tenant:end'], trigger: deletedProject },
];

describe('Coppice is killed in the middle of an operation', { timeout: 900_000 }, () => {
  let data_directory: string;
  let killed: KilledCoppice;
  let base: Base;
  let rows = 0;

  const insert = async (uri: string) => {
    const client = new pg.Client({ connectionString: uri });
    await client.connect();
    await client.query('insert into kept select from generate_series(1, 10)');
    rows += 10;
    await client.end();
  };

  before(async () => {
    data_directory = await makeStartedDirectory();
    killed = await killedCoppice(data_directory, { COPPICE_KEEP_DELETED_BRANCHES_SECONDS: '3600' });
    const coppice = await killed.running();
    const { project, branch, endpoints, connection_uris } = await coppice.must('POST', '/projects', { project: {} });
    await coppice.settled(project.id);
    const uri = connection_uris[0].connection_uri;
    base = { project_id: project.id, branch_id: branch.id, endpoint_id: endpoints[0].id, uri };
    const client = new pg.Client({ connectionString: uri });
    await client.connect();
    await client.query('create table kept ()');
    await client.end();
  });
  after(() => killed?.remove());

  for (const point of ['suspend_compute:stopping', 'suspend_compute:stopped', 'suspend_compute:end']) {
    it(`at ${point} of a deleted branch that is kept, and it comes back whole`, async () => {
      const branches = `/projects/${base.project_id}/branches`;
      const doomed = await killed.running();
      await insertAt(doomed, base, insert);
      const { branch, endpoints } = await doomed.must('POST', branches, { endpoints: [{ type: 'read_write' }] });
      await doomed.settled(base.project_id);
      await killed.killAt(point, () => doomed.call('DELETE', `${branches}/${branch.id}`));
      const next = await killed.running();
      // Whether the compute has stopped by now or not.
      await next.must('POST', `${branches}/${branch.id}/recover`);
      await everythingSettled(next);
      await assertRows(next, { ...base, uri: base.uri.replace(base.endpoint_id, endpoints[0].id) }, rows);
      await next.must('DELETE', `${branches}/${branch.id}?hard_delete=true`);
      await everythingSettled(next);
      await assertNothingStray(next, data_directory);
    });
  }

  for (const { points, trigger } of CASES) {
    for (const point of points) {
      it(`at ${point}, and the next start brings it to an end`, async () => {
        await killed.killAt(point, async (doomed) => {
          await insertAt(doomed, base, insert);
          await trigger(doomed, base);
        });
        const next = await killed.running();
        await everythingSettled(next);
        await insertAt(next, base, insert);
        await assertRows(next, base, rows);
        await assertNothingStray(next, data_directory);
      });
    }
  }
});

/** The base project's URI names the port of the Coppice that made it. */
function uriOf(coppice: TestCoppice, { uri }: Base): string {
  const url = new URL(uri);
  url.port = String(coppice.pg_port);
  return url.href;
}

const insertAt = (coppice: TestCoppice, base: Base, insert: (uri: string) => Promise<void>) =>
  insert(uriOf(coppice, base));

async function everythingSettled(coppice: TestCoppice): Promise<void> {
  const { projects } = await coppice.must('GET', '/projects?limit=100');
  for (const { id } of projects) await coppice.settled(id);
}

async function assertRows(coppice: TestCoppice, base: Base, expected: number): Promise<void> {
  const client = new pg.Client({ connectionString: uriOf(coppice, base) });
  await client.connect();
  const result = await client.query('select count(*)::int as count from kept');
  await client.end();
  assert.equal(result.rows[0].count, expected);
}

/** Every server belongs to an active endpoint, and every volume to a branch, a snapshot or a template. */
async function assertNothingStray(coppice: TestCoppice, data_directory: string): Promise<void> {
  const count = async () => {
    const { projects } = await coppice.must('GET', '/projects?limit=100');
    let active = 0;
    let branches = 0;
    for (const { id } of projects) {
      const { endpoints } = await coppice.must('GET', `/projects/${id}/endpoints`);
      active += endpoints.filter((endpoint: { current_state: string }) => endpoint.current_state === 'active').length;
      branches += (await coppice.must('GET', `/projects/${id}/branches`)).branches.length;
    }
    const names = await readdir(join(data_directory, 'storage/volumes'));
    const volumes = names.filter((name) => !name.startsWith('template-')).length;
    const { rows } = await coppice.ownDatabase(
      'select count(*)::int as snapshots from coppice.timeline_snapshots where purged_at is null',
    );
    return { active, branches, volumes, ...rows[0], servers: await countServers(data_directory) };
  };
  const tidy = async () => {
    const { active, branches, snapshots, volumes, servers } = await count();
    return servers === active + 1 && volumes === branches + snapshots;
  };
  // What could not be removed at once is looked for every half a minute.
  await until(tidy, { what: 'strays to be gone', timeout_ms: 60_000 }).catch(async () => {
    assert.fail(`strays are left: ${JSON.stringify(await count())}`);
  });
}

/** Postmasters on a data directory below ours. */
async function countServers(data_directory: string): Promise<number> {
  const { stdout } = await run('pgrep', ['-a', '-f', `^${data_directory}/distributions/.*/postgres -D`]).catch(() => ({
    stdout: '',
  }));
  return stdout.split('\n').filter(Boolean).length;
}
