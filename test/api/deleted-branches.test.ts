import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import pino from 'pino';
import { deleteExpired } from '../../src/engine/chores/expiry.ts';
import { forgetOldOperations } from '../../src/engine/chores/forget-operations.ts';
import type { EngineContext } from '../../src/engine/context.ts';
import { findKeptTooLong } from '../../src/store/deleted-branches.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import {
  createReadyBranch,
  createSleepingProject,
  finishOperations,
  observeEndpoint,
  type TestProject,
} from '../support/project.ts';

const KEPT_SECONDS = 3600;

interface Shown {
  readonly id: string;
  readonly name: string;
  readonly parent_id?: string;
  readonly recovery?: { deleted_at: string; recoverable_until: string; deletion_method: string };
}

describe('deleted branches that are kept', () => {
  let api: TestApi;
  let project: TestProject;
  before(async () => {
    api = await startTestApi({
      installation: { keep_deleted_branches_seconds: KEPT_SECONDS, keep_deleted_projects_seconds: KEPT_SECONDS },
    });
    project = await createSleepingProject(api);
  });
  after(() => api?.close());

  const branches = () => `/projects/${project.id}/branches`;
  const make = async (name: string, wanted: Record<string, unknown> = {}, endpoints: unknown[] = []) =>
    (await createReadyBranch(api, project, { name, ...wanted }, endpoints)).branch as Shown;
  const remove = async (id: string, query = '') => {
    const { status, body } = await api.call('DELETE', `${branches()}/${id}${query}`);
    assert.equal(status, 200, body?.message);
    return { branch: body.branch, actions: body.operations.map(({ action }: { action: string }) => action) };
  };
  const recover = (id: string) => api.call('POST', `${branches()}/${id}/recover`);
  const listed = async (query = ''): Promise<Shown[]> =>
    (await api.call('GET', `${branches()}?limit=400${query}`)).body.branches;
  const kept = async (id: string) => (await listed('&include_deleted=true')).find((branch) => branch.id === id);
  const isPurgedSoon = async (id: string) =>
    (await findKeptTooLong(api.context.store, KEPT_SECONDS * 1000)).some((branch) => branch.id === id);
  const age = (id: string) =>
    api.store.pool.query(
      `update coppice.branches set deleted_at = deleted_at - interval '${KEPT_SECONDS} seconds' where id = $1`,
      [id],
    );

  it('answer nowhere, are listed where they are asked for, and come back with all that was in them', async () => {
    const { id } = await make('whole', {}, [{ type: 'read_write' }, { type: 'read_only' }]);
    const path = `${branches()}/${id}`;
    const post = async (place: string, body: object) =>
      assert.equal((await api.call('POST', place, { body })).status, 201, place);
    await post(`${path}/roles`, { role: { name: 'reader' } });
    await post(`${path}/databases`, { database: { name: 'books', owner_name: 'reader' } });
    const issuer = { jwks_url: 'https://issuer.example.test/keys', provider_name: 'example', role_names: ['reader'] };
    await post(`/projects/${project.id}/jwks`, { ...issuer, branch_id: id });
    await api.call('PUT', `${path}/backup_schedule`, { body: { schedule: [{ frequency: 'daily', hour: 3 }] } });
    await finishOperations(api, project.id);
    const jwks = async () => (await api.call('GET', `/projects/${project.id}/jwks`)).body.jwks.length;
    const read = async () => {
      const found: unknown[] = [await jwks()];
      for (const place of ['/endpoints', '/roles', '/databases', '/backup_schedule']) {
        const [rows] = Object.values((await api.call('GET', path + place)).body) as Record<string, unknown>[][];
        found.push(rows!.map(({ id: row_id, name, host, type, hour }) => ({ row_id, name, host, type, hour })));
      }
      return found;
    };
    const before_it = await read();
    const [endpoint] = (await api.call('GET', `${path}/endpoints`)).body.endpoints;

    const removed = await remove(id);
    assert.deepEqual(removed.actions, ['suspend_compute', 'suspend_compute']);
    assert.deepEqual([removed.branch.current_state, removed.branch.pending_state], ['ready', undefined]);
    for (const place of ['', '/endpoints', '/roles', '/databases/books']) {
      assert.equal((await api.call('GET', path + place)).status, 404, place);
    }
    assert.equal((await api.call('POST', `/projects/${project.id}/endpoints/${endpoint.id}/start`)).status, 404);
    assert.equal((await api.call('DELETE', path)).status, 204);
    assert.equal(await jwks(), 0);
    assert.equal(
      (await listed()).some((branch) => branch.id === id),
      false,
    );
    const { deleted_at, recoverable_until, deletion_method } = (await kept(id))!.recovery!;
    assert.equal(Date.parse(recoverable_until) - Date.parse(deleted_at), KEPT_SECONDS * 1000);
    assert.equal(deletion_method, 'user');
    await finishOperations(api, project.id);
    assert.equal(await isPurgedSoon(id), false);

    const { status, body } = await recover(id);
    assert.equal(status, 200, body.message);
    assert.deepEqual([body.branch.id, body.branch.name, body.branch.recovery], [id, 'whole', undefined]);
    assert.deepEqual(
      body.endpoints.map((shown: { id: string; current_state: string }) => shown.current_state),
      ['idle', 'idle'],
    );
    assert.deepEqual(await read(), before_it);
    assert.equal((await kept(id))!.recovery, undefined);
    const again = await recover(id);
    assert.deepEqual([again.status, again.body.message], [422, `branch is not deleted; branch_id:"${id}"`]);
    const { rows: audited } = await api.store.pool.query(
      `select target ->> 'branch_id' as branch_id from coppice.audit_log where action = 'branch.recover'`,
    );
    assert.deepEqual(audited, [{ branch_id: id }]);
    const { rows: events } = await api.store.pool.query(
      `select type, subject_id from coppice.events where type like 'branch.%' and subject_id = $1
       or type like 'endpoint.recovered' order by transaction, number`,
      [id],
    );
    assert.deepEqual(
      events.slice(-3).map(({ type }) => type),
      ['endpoint.recovered', 'endpoint.recovered', 'branch.recovered'],
    );
  });

  it('stand in lists where they would stand, page by page, and are found by their names', async () => {
    const deleted = await make('sought 1');
    await make('sought 2');
    await make('sought 3');
    await remove(deleted.id);
    for (const sort of ['sort_by=name&sort_order=asc', 'sort_by=created_at&sort_order=asc']) {
      const names: string[] = [];
      for (let cursor = ''; ; ) {
        const query = `?include_deleted=true&search=SOUGHT&limit=1&${sort}${cursor && `&cursor=${cursor}`}`;
        const { body } = await api.call('GET', `${branches()}${query}`);
        names.push(...body.branches.map(({ name }: Shown) => name));
        cursor = body.pagination.next ?? '';
        if (!cursor) break;
      }
      assert.deepEqual(names, ['sought 1', 'sought 2', 'sought 3']);
    }
    assert.equal((await api.call('GET', `${branches()}/count?search=sought`)).body.count, 2);
  });

  it('give their names away, and come back when they can have them again', async () => {
    const first = await make('wanted');
    await remove(first.id);
    const second = await make('wanted');
    const refused = await recover(first.id);
    assert.deepEqual([refused.status, refused.body.code], [409, 'BRANCH_ALREADY_EXISTS']);
    await api.call('PATCH', `${branches()}/${second.id}`, { body: { branch: { name: 'another' } } });
    assert.equal((await recover(first.id)).body.branch.name, 'wanted');
  });

  it('say that they had expired, and expire no more when they are back', async () => {
    const { branch } = (
      await api.call('POST', branches(), { body: { branch: { name: 'leased', lease_ttl_seconds: 600 } } })
    ).body;
    await finishOperations(api, project.id);
    const { store } = api.context;
    const ctx = { store, intent: store, logger: pino({ level: 'silent' }), keep_deleted_branches_ms: 1000 };
    await deleteExpired(ctx as unknown as EngineContext, new Date(Date.parse(branch.expires_at) + 1));
    assert.equal((await kept(branch.id))!.recovery!.deletion_method, 'ttl');
    const { body } = await recover(branch.id);
    assert.deepEqual([body.branch.expires_at, body.branch.ttl_interval_seconds], [undefined, undefined]);
  });

  it('come back behind their parents, and without them where those are gone for good or gave them away', async () => {
    const parent = await make('parent');
    const child = await make('child', { parent_id: parent.id });
    await remove(child.id);
    await remove(parent.id);
    const refused = await recover(child.id);
    assert.equal(refused.status, 422);
    assert.match(refused.body.message, new RegExp(`comes back first; parent_id:"${parent.id}"`));
    assert.equal((await recover(parent.id)).status, 200);
    assert.equal((await recover(child.id)).body.branch.parent_id, parent.id);

    await remove(child.id);
    const source = { source_branch_id: project.branch_id, preserve_under_name: 'what the parent was' };
    assert.equal((await api.call('POST', `${branches()}/${parent.id}/restore`, { body: source })).status, 200);
    await finishOperations(api, project.id);
    const preserved = (await listed()).find(({ name }) => name === source.preserve_under_name)!;
    assert.equal((await recover(child.id)).body.branch.parent_id, preserved.id);

    await remove(child.id);
    const expires_at = new Date(Date.now() + 3_600_000).toISOString();
    const expiry = (at: string | null) =>
      api.call('PATCH', `${branches()}/${preserved.id}`, { body: { branch: { expires_at: at } } });
    assert.equal((await expiry(expires_at)).status, 200);
    assert.equal((await recover(child.id)).status, 422);
    assert.equal((await expiry(null)).status, 200);
    assert.deepEqual((await remove(preserved.id, '?hard_delete=true')).actions, ['delete_timeline']);
    const orphan = (await recover(child.id)).body.branch;
    assert.deepEqual([orphan.id, 'parent_id' in orphan, 'parent_lsn' in orphan], [child.id, false, false]);
  });

  it('are none that were not finished, or are being restored, or were to go for good', async () => {
    const hard = await make('hard');
    const later = await make('later');
    assert.deepEqual((await remove(later.id)).actions, []);
    const restoring = await make('restoring');
    const source = { source_branch_id: project.branch_id };
    assert.equal((await api.call('POST', `${branches()}/${restoring.id}/restore`, { body: source })).status, 200);
    const unfinished = await api.call('POST', branches(), { body: { branch: { name: 'unfinished' } } });
    const gone = [
      unfinished.body.branch.id,
      restoring.id,
      `${hard.id}?hard_delete=true`,
      `${later.id}?hard_delete=true`,
    ];
    for (const which of gone) {
      const [id, query] = which.split('?') as [string, string | undefined];
      const { branch, actions } = await remove(id, query && `?${query}`);
      assert.ok(actions.includes('delete_timeline'), id);
      assert.equal(branch.pending_state, 'storage_deleted');
      assert.equal(await kept(id), undefined);
      assert.equal((await recover(id)).status, 404);
      assert.equal((await api.call('DELETE', `${branches()}/${id}?hard_delete=true`)).status, 204);
    }
    await finishOperations(api, project.id);
  });

  it('are none that wait for their masking, and those again that were masked', async () => {
    const rule = { database_name: 'neondb', schema_name: 'public', table_name: 'users', column_name: 'name' };
    const anonymize = async (name: string): Promise<string> => {
      const { status, body } = await api.call('POST', `/projects/${project.id}/branch_anonymized`, {
        body: { branch_create: { branch: { name } }, masking_rules: [{ ...rule, masking_value: 'somebody' }] },
      });
      assert.equal(status, 201, body.message);
      await finishOperations(api, project.id);
      return body.branch.id;
    };
    const [masked, waiting] = [await anonymize('masked'), await anonymize('waiting')];
    assert.equal((await api.call('POST', `${branches()}/${masked}/anonymize`)).status, 200);
    await finishOperations(api, project.id);
    assert.deepEqual((await remove(waiting)).actions, ['delete_timeline']);
    assert.equal((await recover(waiting)).status, 404);
    assert.deepEqual((await remove(masked)).actions, []);
    assert.equal((await recover(masked)).status, 200);
    assert.equal((await api.call('GET', `${branches()}/${masked}/anonymized_status`)).body.state, 'anonymized');
    // One that is being masked anew holds what is not masked yet.
    assert.equal((await api.call('POST', `${branches()}/${masked}/anonymize`)).status, 200);
    assert.ok((await remove(masked)).actions.includes('delete_timeline'));
    assert.equal((await recover(masked)).status, 404);
    await finishOperations(api, project.id);
  });

  it('are gone for good when the time is over', async () => {
    const { id } = await make('late');
    await remove(id);
    await age(id);
    assert.equal(await isPurgedSoon(id), true);
    assert.equal(await kept(id), undefined);
    const { status, body } = await recover(id);
    assert.deepEqual([status, body.message], [404, 'branch not found']);
  });

  it('are forgotten with what was in them, long after their data is gone, and not before, nor while they may come back', async () => {
    const endpoints = [{ type: 'read_write' }];
    const may_return = await make('may return', {}, endpoints);
    await remove(may_return.id);
    const [gone, going] = [await make('gone', {}, endpoints), await make('going', {}, endpoints)];
    const child = await make('child of gone', { parent_id: gone.id });
    for (const { id } of [child, gone, going]) await remove(id, '?hard_delete=true');
    await finishOperations(api, project.id);
    // What the engine sees when it has removed the data; the parent's goes first.
    const purge = (which: Shown) =>
      api.store.pool.query(
        `update coppice.timelines set purged_at = now() from coppice.branches
         where timelines.id = branches.timeline_id and branches.id = $1`,
        [which.id],
      );
    const rows = async (which: Shown) => {
      const { rows: counted } = await api.store.pool.query(
        `select (select count(*)::int from coppice.branches where id = $1) as branches,
           (select count(*)::int from coppice.endpoints where branch_id = $1) as endpoints,
           (select count(*)::int from coppice.roles where branch_id = $1) as roles,
           (select count(*)::int from coppice.databases where branch_id = $1) as databases`,
        [which.id],
      );
      return Object.values(counted[0]);
    };
    const told = async () => (await api.store.pool.query('select count(*)::int as n from coppice.events')).rows[0].n;
    const forget = (days: number) =>
      forgetOldOperations(
        { store: api.context.store, operations_retention_ms: 2 * 86_400_000 },
        new Date(Date.now() + days * 86_400_000),
      );
    await purge(gone);
    const told_before = await told();
    await forget(2.5);
    assert.deepEqual(await rows(gone), [1, 1, 1, 1]);
    await forget(4);
    // Its child is still there, so to speak.
    assert.deepEqual(await rows(gone), [1, 0, 1, 1]);
    await purge(child);
    await forget(4);
    await forget(4);
    assert.deepEqual(await rows(child), [0, 0, 0, 0]);
    assert.deepEqual(await rows(gone), [0, 0, 0, 0]);
    assert.deepEqual((await rows(going))[0], 1);
    assert.deepEqual(await rows(may_return), [1, 1, 1, 1]);
    assert.equal(await told(), told_before);
    const { rows: timelines } = await api.store.pool.query(
      'select count(*)::int as n from coppice.timelines where purged_at is not null',
    );
    assert.equal(timelines[0].n, 0);
    assert.equal((await recover(may_return.id)).body.endpoints.length, 1);
  });

  it('are none of another project, and go and come back with their own', async () => {
    const other = await createSleepingProject(api);
    const { branch } = await createReadyBranch(api, other, { name: 'of the other' }, [{ type: 'read_write' }]);
    await observeEndpoint(api, other.endpoint_id, 'stopped');
    const path = `/projects/${other.id}/branches/${branch.id}`;
    assert.equal((await api.call('DELETE', path)).status, 200);
    assert.equal((await recover(branch.id)).status, 404);
    assert.equal((await api.call('DELETE', `${branches()}/${branch.id}?hard_delete=true`)).status, 204);
    await age(branch.id);
    assert.equal((await api.call('DELETE', `/projects/${other.id}`)).status, 200);
    // Their project takes them along.
    assert.equal(await isPurgedSoon(branch.id), false);
    assert.equal((await api.call('POST', `/projects/${other.id}/recover`)).body.branches.length, 1);
    assert.equal(await isPurgedSoon(branch.id), true);
  });
});
