import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import pino from 'pino';
import { deleteExpired } from '../../src/engine/chores/expiry.ts';
import { makeDueSnapshots } from '../../src/engine/chores/schedules.ts';
import type { EngineContext } from '../../src/engine/context.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createReadyBranch, createSleepingProject, finishOperations, type TestProject } from '../support/project.ts';

interface Shown {
  id: string;
  name: string;
  manual: boolean;
  expires_at?: string;
}

const HOUR_MS = 3_600_000;

/** The chores over a store, with a clock that the test sets. What they write is carried out elsewhere. */
describe('by the clock', () => {
  let api: TestApi;
  let ctx: EngineContext;
  let project: TestProject;
  /** A full hour to come: later than anything that is made before it. */
  let noon: number;
  before(async () => {
    api = await startTestApi();
    const { store } = api.store;
    ctx = { store, intent: store, logger: pino({ level: 'silent' }) } as unknown as EngineContext;
  });
  beforeEach(async () => {
    project = await createSleepingProject(api);
    noon = Math.ceil(Date.now() / HOUR_MS) * HOUR_MS + HOUR_MS;
  });
  after(() => api?.close());

  const path = () => `/projects/${project.id}`;
  /** Sets a schedule, as if that was done a minute before noon. */
  const plan = async (schedule: unknown, { id, branch_id } = project) => {
    await api.call('PUT', `/projects/${id}/branches/${branch_id}/backup_schedule`, { body: { schedule } });
    await api.store.pool.query('update coppice.backup_schedules set created_at = $1 where last_due_at is null', [
      new Date(noon - 60_000),
    ]);
  };
  const list = async (): Promise<Shown[]> => (await api.call('GET', `${path()}/snapshots`)).body.snapshots;
  /** One round of the chore when the clock shows that many minutes past the hour. */
  const at = (minutes: number) => makeDueSnapshots(ctx, new Date(noon + minutes * 60_000));
  const text = (ms: number) => `${new Date(ms).toISOString().slice(0, 19)}Z`;

  describe('a schedule', () => {
    it('has a snapshot made when it is due, once, named by the time and kept as long as it says', async () => {
      await plan([{ frequency: 'hourly', retention_seconds: 7200 }]);
      await at(-1);
      assert.deepEqual(await list(), []);
      for (const minutes of [0, 0, 1, 59]) await at(minutes);
      const snapshots = await list();
      assert.deepEqual(
        snapshots.map(({ name, manual }) => [name, manual]),
        [[`main hourly ${text(noon)}`, false]],
      );
      assert.equal(snapshots[0]!.expires_at, text(noon + 7200_000));
      await at(60);
      assert.equal((await list()).length, 2);
    });

    it('serves each due time once when several rounds meet', async () => {
      await plan([{ frequency: 'hourly' }]);
      await Promise.all([at(0), at(0), at(1), at(2)]);
      assert.equal((await list()).length, 1);
    });

    it('catches up with one snapshot, however many times were missed', async () => {
      await plan([{ frequency: 'hourly' }]);
      await at(0);
      await at(10 * 60 + 30);
      assert.deepEqual((await list()).map(({ name }) => name).sort(), [
        `main hourly ${text(noon)}`,
        `main hourly ${text(noon + 10 * HOUR_MS)}`,
      ]);
    });

    it('is not served again when the clock is set back an hour', async () => {
      await plan([{ frequency: 'hourly' }]);
      await at(5);
      for (let minutes = -55; minutes < 60; minutes += 5) await at(minutes);
      assert.equal((await list()).length, 1);
      await at(60);
      assert.equal((await list()).length, 2);
    });

    it('that is set anew does not serve anew what stays in it, and does not begin in the past', async () => {
      await plan([{ frequency: 'hourly' }]);
      await at(0);
      await plan([{ frequency: 'hourly', retention_seconds: 3600 }, { frequency: 'yearly' }]);
      await at(1);
      assert.equal((await list()).length, 1);
      await plan([]);
      await at(60);
      assert.equal((await list()).length, 1);
    });

    it('of a deleted branch, or of a deleted project, is over; others go on', async () => {
      const other = await createSleepingProject(api);
      await plan([{ frequency: 'hourly' }], other);
      await plan([{ frequency: 'hourly' }]);
      await api.call('DELETE', `/projects/${other.id}`);
      await at(0);
      assert.equal((await list()).length, 1);
    });

    it('waits while the storage is full', async () => {
      await plan([{ frequency: 'hourly' }]);
      const pool = { driver: 'copy', path: '/', total_bytes: 100, free_bytes: 1, reserve_bytes: 10 };
      await api.store.store
        .insertInto('storage_pools')
        .values({ name: 'default', ...pool })
        .execute();
      await at(0);
      assert.deepEqual(await list(), []);
      await api.store.store.deleteFrom('storage_pools').execute();
      await at(7);
      assert.equal((await list())[0]!.name, `main hourly ${text(noon)}`);
    });
  });

  describe('expiry', () => {
    const expire = (seconds: number) => deleteExpired(ctx, new Date(noon + seconds * 1000));
    const branchNames = async () =>
      (await api.call('GET', `${path()}/branches`)).body.branches.map(({ name }: Shown) => name).sort();

    it('deletes snapshots at their time, and not those that were given more', async () => {
      const make = async (name: string) => {
        const query = new URLSearchParams({ name, expires_at: text(noon) });
        const { body } = await api.call('POST', `${path()}/branches/${project.branch_id}/snapshot?${query}`);
        return `${path()}/snapshots/${body.snapshot.id}`;
      };
      await make('over');
      const moved = await make('moved');
      const kept = await make('kept');
      await finishOperations(api, project.id);
      await api.call('PATCH', moved, { body: { snapshot: { expires_at: text(noon + 60_000) } } });
      await api.call('PATCH', kept, { body: { snapshot: { expires_at: null } } });
      await expire(-1);
      assert.equal((await list()).length, 3);
      await expire(0);
      assert.deepEqual((await list()).map(({ name }) => name).sort(), ['kept', 'moved']);
      await expire(60);
      assert.deepEqual(
        (await list()).map(({ name }) => name),
        ['kept'],
      );
      const { body } = await api.call('GET', `${path()}/operations`);
      const deletions = body.operations.filter(({ action }: { action: string }) => action === 'delete_timeline');
      assert.equal(deletions.length, 2);
    });

    it('deletes branches at their time, with their endpoints', async () => {
      const over = await createReadyBranch(api, project, { name: 'over', expires_at: text(noon) }, [
        { type: 'read_write' },
      ]);
      await createReadyBranch(api, project, { name: 'later', expires_at: text(noon + 60_000) });
      await createReadyBranch(api, project, { name: 'kept' });
      await expire(0);
      assert.deepEqual(await branchNames(), ['kept', 'later', 'main']);
      assert.equal((await api.call('GET', `${path()}/endpoints/${over.endpoints[0].id}`)).status, 404);
      const { body } = await api.call('GET', `${path()}/operations`);
      assert.deepEqual(
        body.operations.slice(0, 2).map(({ action }: { action: string }) => action),
        ['delete_timeline', 'suspend_compute'],
      );
    });

    it('leaves what may not go, should it have a time all the same', async () => {
      const { branch } = await createReadyBranch(api, project, { name: 'protected' });
      await api.store.pool.query('update coppice.branches set expires_at = $1, protected = true where id = $2', [
        new Date(noon),
        branch.id,
      ]);
      await api.store.pool.query('update coppice.branches set expires_at = $1 where id = $2', [
        new Date(noon),
        project.branch_id,
      ]);
      await expire(60);
      assert.deepEqual(await branchNames(), ['main', 'protected']);
    });
  });
});
