import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { createApiKey } from '../../src/actions/create-api-key.ts';
import type { Route } from '../../src/api/route.ts';
import { ROUTES } from '../../src/api/routes.ts';
import { forgetOldEntries } from '../../src/engine/chores/audit-log.ts';
import { attributed } from '../../src/store/attributed.ts';
import { forgetAuditLog } from '../../src/store/audit-log.ts';
import type { AuditedChange, AuditLogTable } from '../../src/store/audit-log-table.ts';
import { writeBranchDeletion } from '../../src/store/branch-deletion.ts';
import { findBranch } from '../../src/store/branches.ts';
import { lockLiveProject } from '../../src/store/projects.ts';
import { addCallers } from '../support/api-callers.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createReadyBranch, createSleepingProject, type TestProject } from '../support/project.ts';
import { exampleBody, examplePath } from '../support/request-examples.ts';
import { type PreparedRequest, prepareChange } from '../support/successful-changes.ts';

describe('the audit log', () => {
  let api: TestApi;
  let project: TestProject;
  let org_id: string;
  before(async () => {
    api = await startTestApi({
      installation: { keep_deleted_projects_seconds: 3600, keep_deleted_branches_seconds: 3600 },
    });
    project = await createSleepingProject(api);
    org_id = (await api.call('GET', '/users/me/organizations')).body.organizations[0].id;
  });
  after(() => api?.close());

  const rows = (where: Partial<AuditLogTable>): Promise<AuditLogTable[]> =>
    Object.entries(where)
      .reduce(
        (query, [column, value]) => query.where(column as 'request_id', '=', value as string),
        api.store.store.selectFrom('audit_log').selectAll(),
      )
      .orderBy('id')
      .execute();
  /** Sends a change under a name of its own, and tells what the log says of it. */
  const change = async (
    method: 'POST' | 'PATCH' | 'PUT' | 'DELETE',
    path: string,
    options: { key?: string; body?: unknown } = {},
  ) => {
    const request_id = randomUUID();
    const headers = { 'x-request-id': request_id, 'user-agent': 'a client\u00ff/1' };
    const answer = await api.call(method, path, { ...options, headers });
    return { ...answer, request_id, entries: await rows({ request_id }) };
  };
  const list = async (query = '', key?: string) => {
    const answer = await api.call('GET', `/organizations/${org_id}/audit_log${query}`, { key });
    assert.equal(answer.status, 200, answer.body.message);
    return answer.body;
  };
  const of = (entry: AuditLogTable, noun: string): AuditedChange[] =>
    entry.changes.filter((changed) => changed.noun === noun);

  describe('has an entry', () => {
    for (const route of ROUTES.filter(({ method }) => method !== 'GET')) {
      const name = `${route.method} ${route.path}`;
      it(`of ${name}, or none where it is refused or changes nothing`, async (t) => {
        const prepared = (await prepareChange(api, route)) ?? (await example(route));
        const send = () =>
          change(route.method as 'POST', prepared.path, {
            ...(prepared.by && { key: prepared.by.key }),
            ...(prepared.body !== undefined && { body: prepared.body }),
          });
        const { status, entries, body } = await send();
        if (status >= 400) {
          t.diagnostic(`refused: ${status} ${body?.message}`);
          assert.ok(!prepared.must_succeed, `${status} ${body?.message}`);
          assert.deepEqual(entries, []);
          return;
        }
        if (entries.length === 0) {
          assert.ok(!prepared.must_succeed, 'it changed something without an entry');
          return assertWritesNothing(send);
        }
        for (const entry of entries) {
          assert.match(entry.action, /^[a-z_]+\.[a-z_]+$/);
          assert.equal(entry.actor_kind, 'personal_key');
          assert.equal(entry.user_email, prepared.by?.email ?? 'owner@example.test');
          assert.equal(typeof entry.key_id, 'number');
          assert.equal(entry.address, '127.0.0.1');
          assert.equal(entry.user_agent, 'a client?/1');
          assert.ok(entry.organization_id);
        }
      });
    }

    /** The use of a key may be written behind a request; not behind each. */
    const assertWritesNothing = async (send: () => Promise<unknown>) => {
      const writers = async () =>
        (await api.store.pool.query('select pg_snapshot_xmax(pg_current_snapshot())::text as next')).rows[0].next;
      for (let attempt = 0; attempt < 3; attempt++) {
        const before = await writers();
        await send();
        if ((await writers()) === before) return;
      }
      assert.fail('it writes something without an entry');
    };
    const example = async (route: Route): Promise<PreparedRequest> => {
      const made = await createSleepingProject(api);
      const ids = { ...made, project_id: made.id, org_id };
      return { path: examplePath(route, ids), body: exampleBody(route, ids) };
    };
  });

  it('says what was made, and what became different', async () => {
    const made = await change('POST', '/projects', { body: { project: { name: 'a shop' } } });
    const [entry] = made.entries;
    const { project: shown, branch, endpoints, operations } = made.body;
    assert.deepEqual(
      [entry!.action, entry!.organization_id, entry!.project_id, entry!.changes_cut],
      ['project.create', org_id, shown.id, false],
    );
    const [created] = of(entry!, 'project');
    assert.deepEqual([created!.id, created!.change, created!.after!.name], [shown.id, 'create', 'a shop']);
    assert.equal('before' in created!, false);
    assert.deepEqual(
      of(entry!, 'branch').map(({ id }) => id),
      [branch.id],
    );
    assert.deepEqual(
      of(entry!, 'endpoint').map(({ id }) => id),
      [endpoints[0].id],
    );
    assert.deepEqual(
      of(entry!, 'operation')
        .map(({ id }) => id)
        .sort(),
      operations.map(({ id }: { id: string }) => id).sort(),
    );
    const path = `/projects/${shown.id}`;
    const renamed = await change('PATCH', path, { body: { project: { name: 'a bigger shop' } } });
    assert.deepEqual(renamed.entries[0]!.target, { project_id: shown.id });
    const [updated] = of(renamed.entries[0]!, 'project');
    assert.deepEqual(
      [updated!.change, updated!.before, updated!.after],
      ['update', { name: 'a shop' }, { name: 'a bigger shop' }],
    );
    const gone = await change('DELETE', path);
    assert.deepEqual(
      of(gone.entries[0]!, 'project').map((changed) => [changed.change, changed.before?.name, changed.after]),
      [['delete', 'a bigger shop', undefined]],
    );
    assert.deepEqual(
      of(gone.entries[0]!, 'branch').map((changed) => changed.change),
      ['delete'],
    );
  });

  it('holds no secrets', async () => {
    const branch = `/projects/${project.id}/branches/${project.branch_id}`;
    const key = (await change('POST', '/api_keys', { body: { key_name: 'told of' } })).body.key;
    const role = await change('POST', `${branch}/roles`, { body: { role: { name: 'secretive' } } });
    const reset = await change('POST', `${branch}/roles/secretive/reset_password`);
    const [changed] = of(reset.entries[0]!, 'role');
    assert.deepEqual([changed!.id, changed!.after], ['secretive', { verifier: 'changed, and not shown' }]);
    await change('POST', `${branch}/snapshot`, { body: { name: 'with roles' } });
    const texts = (await api.store.pool.query('select row_to_json(a)::text as text from coppice.audit_log a')).rows;
    const all = texts.map(({ text }) => text).join('\n');
    const secrets = [key, api.key, project.password, role.body.role.password, reset.body.role.password, 'SCRAM-SHA'];
    for (const secret of secrets) assert.equal(all.includes(secret), false);
  });

  it('and the change are written together or not at all', async () => {
    const before = await rows({});
    const path = `/projects/${project.id}`;
    const refused = await change('DELETE', `${path}/branches/${project.branch_id}`);
    assert.equal(refused.status, 422);
    assert.equal((await rows({})).length, before.length);
    await api.store.pool.query('alter table coppice.audit_log add constraint full_up check (false) not valid');
    try {
      for (const [url, payload] of [
        [path, { project: { name: 'unseen' } }],
        // Not a transaction by itself.
        ['/api_keys', { key_name: 'unseen' }],
      ] as const) {
        const method = url === path ? 'PATCH' : 'POST';
        const headers = { authorization: `Bearer ${api.key}` };
        assert.equal((await api.app.inject({ method, url: `/api/v2${url}`, payload, headers })).statusCode, 500);
      }
    } finally {
      await api.store.pool.query('alter table coppice.audit_log drop constraint full_up');
    }
    assert.notEqual((await api.call('GET', path)).body.project.name, 'unseen');
    const keys: { name: string }[] = (await api.call('GET', '/api_keys')).body;
    assert.equal(
      keys.some(({ name }) => name === 'unseen'),
      false,
    );
  });

  it('is only added to; what is older than it is kept goes', async () => {
    const refused = /the log of changes is only added to/;
    await assert.rejects(api.store.pool.query("update coppice.audit_log set action = 'x.y'"), refused);
    await assert.rejects(api.store.pool.query('delete from coppice.audit_log'), refused);
    await assert.rejects(api.store.pool.query('truncate coppice.audit_log'), refused);
    const { rows: old } = await api.store.pool.query(
      `insert into coppice.audit_log (at, actor_kind, action) select now() - interval '1 year', 'platform', 'x.y'
       from generate_series(1, 3) returning id`,
    );
    const kept = (await rows({})).length - old.length;
    const before = new Date(Date.now() - 86_400_000);
    assert.equal(await forgetAuditLog(api.store.store, before, 2), 2);
    assert.equal(await forgetAuditLog(api.store.store, before, 2), 1);
    assert.equal((await rows({})).length, kept);
    await assert.rejects(api.store.pool.query('delete from coppice.audit_log'), refused);
  });

  it('tells what the platform did by itself from what was asked for', async () => {
    const { branch } = await createReadyBranch(api, project, { name: 'short-lived' });
    await api.store.store.transaction().execute(async (trx) => {
      await lockLiveProject(trx, project.id);
      await writeBranchDeletion(trx, (await findBranch(trx, branch.id))!);
    });
    const { entries } = await list(`?project_id=${project.id}&actor=platform`);
    assert.equal(entries[0].action, 'branch.delete');
    assert.deepEqual(entries[0].actor, { kind: 'platform' });
    assert.equal(entries[0].changes[0].id, branch.id);
    assert.equal('request_id' in entries[0], false);
  });

  it('tells what a command on the machine did, to the organizations of the person whose key it is', async () => {
    const { body: me } = await api.call('GET', '/users/me');
    const store = attributed(api.store.store, { actor_kind: 'command_line', action: 'api_key.create' });
    const { key } = await createApiKey({ store }, { user_id: me.id, name: 'made by hand' });
    const [entry] = (await list('?actor=command_line')).entries;
    assert.deepEqual([entry.action, entry.changes[0].id], ['api_key.create', String(key.id)]);
  });

  it('loses what is older than the setting says, and nothing where that is no time', async () => {
    await api.store.pool.query(
      `insert into coppice.audit_log (at, actor_kind, action) values (now() - interval '2 days', 'platform', 'x.old')`,
    );
    const { store } = api.store;
    const old = () => rows({ action: 'x.old' });
    assert.equal(await forgetOldEntries({ store, audit_log_retention_ms: undefined }, new Date()), false);
    await forgetOldEntries({ store, audit_log_retention_ms: 3 * 86_400_000 }, new Date());
    assert.equal((await old()).length, 1);
    await forgetOldEntries({ store, audit_log_retention_ms: 86_400_000 }, new Date());
    assert.equal((await old()).length, 0);
  });

  it('has the move of a project in both organizations', async () => {
    const transfer = ROUTES.find(({ path }) => path === '/users/me/projects/transfer')!;
    const { path, body, by } = (await prepareChange(api, transfer))!;
    const { entries } = await change('POST', path, { key: by!.key, body });
    const seen = new Set(entries.map(({ organization_id }) => organization_id));
    assert.equal(seen.size, 2);
    assert.ok(seen.has((body as { destination_org_id: string }).destination_org_id));
  });

  it('is kept in pieces where one call changes very much', async () => {
    const { branch } = await createReadyBranch(api, project, { name: 'large' });
    await api.store.pool.query(
      `insert into coppice.endpoints (id, project_id, branch_id, type, min_cu, max_cu, suspend_timeout_seconds)
       select 'ep-many-' || n, $1, $2, 'read_only', 1, 1, 0 from generate_series(1, 400) n`,
      [project.id, branch.id],
    );
    const { entries } = await change('DELETE', `/projects/${project.id}/branches/${branch.id}`);
    assert.equal(entries[0]!.changes_cut, true);
    assert.ok(entries[0]!.changes.length > 50);
  });

  describe('over the API', () => {
    it('is paged, newest first, without gaps or doubles', async () => {
      const all: { id: number }[] = (await list('?limit=1000')).entries;
      assert.deepEqual(
        all.map(({ id }) => id),
        all.map(({ id }) => id).toSorted((a, b) => b - a),
      );
      const seen: number[] = [];
      for (let query = '?limit=7'; ; ) {
        const page = await list(query);
        if (page.entries.length === 0) break;
        seen.push(...page.entries.map(({ id }: { id: number }) => id));
        query = `?limit=7&cursor=${page.pagination.cursor}`;
      }
      assert.deepEqual(
        seen,
        all.map(({ id }) => id),
      );
    });

    it('is filtered by project, actor, action and time', async () => {
      const other = await createSleepingProject(api);
      const { body: me } = await api.call('GET', '/users/me');
      const of_project = (await list(`?project_id=${other.id}`)).entries;
      assert.deepEqual(
        of_project.map(({ action }: { action: string }) => action),
        ['project.create'],
      );
      const [{ at, actor }] = of_project;
      for (const text of [me.id, 'OWNER@example.test', actor.key_id, 'personal_key']) {
        assert.equal((await list(`?project_id=${other.id}&actor=${text}`)).entries.length, 1, text);
      }
      assert.equal((await list(`?project_id=${other.id}&actor=platform`)).entries.length, 0);
      assert.equal((await list(`?project_id=${other.id}&action=project.create`)).entries.length, 1);
      assert.equal((await list(`?project_id=${other.id}&action=project.delete`)).entries.length, 0);
      const later = new Date(Date.parse(at) + 1).toISOString();
      assert.equal((await list(`?project_id=${other.id}&from=${at}&to=${later}`)).entries.length, 1);
      assert.equal((await list(`?project_id=${other.id}&from=${later}`)).entries.length, 0);
      assert.equal((await list(`?project_id=${other.id}&to=${at}`)).entries.length, 0);
      for (const wrong of ['cursor=x', 'from=yesterday', 'action=%25', 'limit=0', 'limit=1001']) {
        assert.equal((await api.call('GET', `/organizations/${org_id}/audit_log?${wrong}`)).status, 400, wrong);
      }
    });

    it('comes as a whole in lines of JSON for who asks for that', async () => {
      await api.store.pool.query(
        `insert into coppice.audit_log (organization_id, actor_kind, action)
         select $1, 'platform', 'many.entries' from generate_series(1, 2500)`,
        [org_id],
      );
      const response = await api.app.inject({
        url: `/api/v2/organizations/${org_id}/audit_log?action=many.entries&limit=3`,
        headers: { authorization: `Bearer ${api.key}`, accept: 'application/x-ndjson' },
      });
      assert.equal(response.headers['content-type'], 'application/x-ndjson');
      const lines = response.payload.trimEnd().split('\n');
      assert.equal(lines.length, 2500);
      assert.equal(new Set(lines.map((line) => JSON.parse(line).id)).size, 2500);
      const { entries } = await list('?action=many.entries&limit=1');
      assert.deepEqual(JSON.parse(lines[0]!), entries[0]);
    });

    it('shows each organization its own, and what people of it do to their keys', async () => {
      const { body } = await api.call('GET', `/projects/${project.id}`);
      const keys = await addCallers(api, body.project, project.id);
      const theirs = (await api.call('GET', '/users/me/organizations', { key: keys.outsider })).body.organizations[0]
        .id;
      const made = await change('POST', '/projects', { key: keys.outsider, body: { project: {} } });
      const key = await change('POST', '/api_keys', { key: keys.member, body: { key_name: 'of a member' } });
      const ids = async (organization: string, reader: string): Promise<string[]> => {
        const answer = await api.call('GET', `/organizations/${organization}/audit_log?limit=1000`, { key: reader });
        return answer.body.entries.map(({ request_id }: { request_id?: string }) => request_id);
      };
      const ours = await ids(org_id, keys.organization_key);
      assert.deepEqual([ours.includes(made.request_id), ours.includes(key.request_id)], [false, true]);
      const others = await ids(theirs, keys.outsider);
      assert.deepEqual([others.includes(made.request_id), others.includes(key.request_id)], [true, false]);
    });
  });
});
