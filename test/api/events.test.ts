import assert from 'node:assert/strict';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { EVENTS_CHANGED, EventFeed } from '../../src/api/event-feed.ts';
import { EventStreams } from '../../src/api/event-streams.ts';
import { createChangeWatch } from '../../src/store/change-watch.ts';
import { findEventLog, forgetEvents } from '../../src/store/events.ts';
import { addCallers } from '../support/api-callers.ts';
import { startSecondApi, startTestApi, type TestApi } from '../support/api-server.ts';
import { readEventStream } from '../support/event-stream.ts';
import { createSleepingProject, finishOperations, observeEndpoint } from '../support/project.ts';
import { seededRandom, testSeed } from '../support/random.ts';
import { until } from '../support/until.ts';
import { untilEventsShow } from '../support/until-events-show.ts';

interface Shown {
  readonly id: string;
  readonly type: string;
  readonly project_id?: string;
  readonly subject_id: string;
  readonly data: Record<string, unknown>;
}

describe('events', { timeout: 120_000 }, () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
    await api.app.listen({ host: '127.0.0.1', port: 0 });
  });
  after(() => api?.close());

  const urlOf = ({ app }: TestApi, query = '') =>
    `http://127.0.0.1:${(app.server.address() as AddressInfo).port}/api/v2/events${query}`;
  const follow = (options: { key?: string; last_event_id?: string; query?: string; at?: TestApi } = {}) =>
    readEventStream(urlOf(options.at ?? api, options.query), {
      key: options.key ?? api.key,
      last_event_id: options.last_event_id,
    });
  const page = async (query = '', key = api.key): Promise<{ events: Shown[]; next: string }> => {
    await untilEventsShow(api);
    const { status, body } = await api.call('GET', `/events${query}`, { key });
    assert.equal(status, 200, body.message);
    return body;
  };
  const end = async () => {
    let { next } = await page('?limit=1000');
    for (;;) {
      const more = await page(`?limit=1000&after=${next}`);
      if (more.events.length === 0) return more.next;
      next = more.next;
    }
  };
  const typesOf = (events: readonly Shown[]) => events.map(({ type }) => type);

  describe('in pages', () => {
    it('tell every change of a project and of what is in it, in order', async () => {
      const after = await end();
      const { id, branch_id, endpoint_id } = await createSleepingProject(api);
      const path = `/projects/${id}`;
      const done = () => finishOperations(api, id);
      await api.call('PATCH', path, { body: { project: { name: 'another name' } } });
      const { body: made } = await api.call('POST', `${path}/branches`, { body: { branch: { name: 'child' } } });
      await done();
      await api.call('POST', `${path}/branches/${branch_id}/roles`, { body: { role: { name: 'reader' } } });
      await done();
      await api.call('POST', `${path}/endpoints/${endpoint_id}/start`);
      await done();
      await api.call('DELETE', `${path}/branches/${made.branch.id}`);
      await done();
      await api.call('DELETE', path);
      const { events } = await page(`?limit=1000&after=${after}`);
      const without_operations = events.filter(({ type }) => !type.startsWith('operation.'));
      assert.deepEqual(typesOf(without_operations), [
        ...['project.created', 'branch.created', 'endpoint.created'],
        // Its volume stands, its compute was seen to run, and to sleep.
        ...['branch.updated', 'endpoint.updated', 'endpoint.updated'],
        'project.updated',
        ...['branch.created', 'branch.updated'],
        'role.created',
        ...typesOf(without_operations.slice(10, -4)),
        ...typesOf(without_operations.slice(-4)),
      ]);
      const last = new Set(typesOf(without_operations.slice(10)));
      assert.deepEqual([...last].sort(), ['branch.deleted', 'endpoint.deleted', 'endpoint.updated', 'project.deleted']);
      assert.ok(events.every((event) => event.project_id === id));
      const child = without_operations.find(({ data }) => data.name === 'child')!;
      assert.deepEqual(
        [child.subject_id, child.data.parent_id, child.data.default],
        [made.branch.id, branch_id, false],
      );
      const operations = events.filter(({ type }) => type === 'operation.updated');
      assert.ok(operations.some(({ data }) => data.action === 'create_branch' && data.status === 'finished'));
    });

    it('tell what comes back: deleted projects, and roles that are made again before they were dropped', async () => {
      const { id, branch_id } = await createSleepingProject(api);
      const roles = `/projects/${id}/branches/${branch_id}/roles`;
      const after = await end();
      await api.call('POST', roles, { body: { role: { name: 'reader' } } });
      await api.call('DELETE', `${roles}/reader`);
      await api.call('POST', roles, { body: { role: { name: 'reader' } } });
      // As if it could be brought back here.
      for (const set of ['now()', 'null']) {
        await api.store.pool.query(`update coppice.projects set deleted_at = ${set} where id = $1`, [id]);
      }
      const { events } = await page(`?limit=1000&after=${after}`);
      assert.deepEqual(typesOf(events.filter(({ type }) => /^(role|project)\./.test(type))), [
        'role.created',
        'role.deleted',
        'role.created',
        'project.deleted',
        'project.recovered',
      ]);
    });

    it('go on where the last one ended, and neither repeat nor leave out one', async () => {
      const after = await end();
      await createSleepingProject(api);
      const all = (await page(`?limit=1000&after=${after}`)).events.map(({ id }) => id);
      assert.ok(all.length > 5);
      for (const limit of [1, 3]) {
        const seen: string[] = [];
        let next = after;
        for (;;) {
          const got = await page(`?limit=${limit}&after=${next}`);
          seen.push(...got.events.map(({ id }) => id));
          next = got.next;
          if (got.events.length === 0) break;
        }
        assert.deepEqual(seen, all);
      }
    });

    it('say nothing of what is only observed, and nothing of secrets', async () => {
      const project = await createSleepingProject(api);
      const { body: key } = await api.call('POST', '/api_keys', { body: { key_name: 'a key' } });
      const after = await end();
      await api.store.pool.query('update coppice.endpoints set last_active_at = now(), current_cu = 1 where id = $1', [
        project.endpoint_id,
      ]);
      await api.store.pool.query('update coppice.api_keys set last_used_at = now()');
      assert.deepEqual((await page(`?after=${after}`)).events, []);
      const { rows } = await api.store.pool.query('select data::text as text from coppice.events');
      const told = rows.map(({ text }) => text).join('\n');
      for (const secret of [key.key, project.password, 'secret_hash', 'verifier', 'sealed']) {
        assert.equal(told.includes(secret), false, secret);
      }
    });
  });

  describe('are seen by those who may see what changed', () => {
    it('members of the organization, and keys of the project', async () => {
      const after = await end();
      const project = await createSleepingProject(api);
      const foreign = await createSleepingProject(api);
      const org_id = (await api.call('GET', `/projects/${project.id}`)).body.project.org_id;
      const callers = await addCallers(api, { id: project.id, org_id }, foreign.id);
      const projectsOf = async (key: string, query = '') => {
        const { events } = await page(`?limit=1000&after=${after}${query}`, key);
        return [...new Set(events.flatMap((event) => event.project_id ?? []))].sort();
      };
      const both = [project.id, foreign.id].sort();
      assert.deepEqual(await projectsOf(callers.member), both);
      assert.deepEqual(await projectsOf(callers.organization_key), both);
      assert.deepEqual(await projectsOf(callers.project_key), [project.id]);
      assert.deepEqual(await projectsOf(callers.foreign_project_key), [foreign.id]);
      assert.deepEqual(await projectsOf(callers.outsider), []);
      assert.deepEqual(await projectsOf(callers.foreign_organization_key), []);
      assert.deepEqual(await projectsOf(callers.member, `&project_id=${project.id}`), [project.id]);
      for (const key of [callers.outsider, callers.foreign_project_key]) {
        assert.equal((await api.call('GET', `/events?project_id=${project.id}`, { key })).status, 404);
      }
    });

    it('of personal keys only their owner', async () => {
      const project = await createSleepingProject(api);
      const org_id = (await api.call('GET', `/projects/${project.id}`)).body.project.org_id;
      const callers = await addCallers(api, { id: project.id, org_id }, project.id);
      const after = await end();
      await api.call('POST', '/api_keys', { key: callers.member, body: { key_name: "the member's" } });
      const names = async (key: string) => (await page(`?after=${after}`, key)).events.map(({ data }) => data.name);
      assert.deepEqual(await names(callers.member), ["the member's"]);
      for (const key of [api.key, callers.organization_key, callers.project_key])
        assert.deepEqual(await names(key), []);
    });
  });

  describe('as a stream', () => {
    it('come as they happen, to whoever follows, in whatever process', async () => {
      const other = await startSecondApi(api);
      await other.app.listen({ host: '127.0.0.1', port: 0 });
      const streams = await Promise.all([follow(), follow({ at: other })]);
      try {
        const { id } = await createSleepingProject(api);
        for (const stream of streams) {
          const event = await stream.until(({ type }) => type === 'project.created');
          assert.equal(event.data.project_id, id);
          assert.equal(event.id, event.data.id);
        }
      } finally {
        await Promise.all(streams.map((stream) => stream.close()));
        await other.close();
      }
    });

    it('begin now, or behind the last event that was seen', async () => {
      const first = await follow();
      const { id } = await createSleepingProject(api);
      const created = await first.until(({ type }) => type === 'project.created');
      await first.close();
      const resumed = await follow({ last_event_id: created.id });
      await resumed.until(({ type, data }) => type === 'endpoint.updated' && data.project_id === id);
      assert.equal(resumed.events[0]!.type, 'ready');
      assert.equal(
        resumed.events.some((event) => event.id === created.id && event.type !== 'ready'),
        false,
      );
      await resumed.close();
      await untilEventsShow(api);
      const now = await follow();
      await api.call('PATCH', `/projects/${id}`, { body: { project: { name: 'the newest' } } });
      const next = await now.until(({ type }) => type !== 'ready');
      assert.equal(next.type, 'project.updated');
      await now.close();
    });

    it('are complete and in one order for everybody, though transactions end in another, and clients break off', async () => {
      const seed = testSeed();
      const random = seededRandom(seed);
      const below = (bound: number) => Math.floor(random() * bound);
      const { id } = await createSleepingProject(api);
      const after = await end();
      const NAMES = Array.from({ length: 60 }, (_, index) => `name-${index}`);
      const write = async (names: readonly string[]) => {
        for (const name of names) {
          const client = await api.store.pool.connect();
          try {
            await client.query('begin');
            await client.query(
              `insert into coppice.events (type, organization_id, project_id, subject_id, data)
               select 'project.updated', organization_id, id, id, jsonb_build_object('name', $2::text)
               from coppice.projects where id = $1`,
              [id, name],
            );
            for (let turns = below(20); turns > 0; turns -= 1) await setImmediate();
            await client.query(below(10) === 0 ? 'rollback' : 'commit');
          } finally {
            client.release();
          }
        }
      };
      const read = async () => {
        const seen: string[] = [];
        let last_event_id = after;
        while (!seen.includes('the end')) {
          const stream = await follow({ last_event_id, query: `?project_id=${id}` });
          const stop = seen.length + 1 + below(20);
          await stream.until(({ type, id: event_id, data }) => {
            last_event_id = event_id;
            if (type === 'project.updated') seen.push((data.data as { name: string }).name);
            return seen.length >= stop || seen.includes('the end');
          });
          await stream.close();
        }
        return seen;
      };
      const readers = Array.from({ length: 4 }, read);
      const all_read = Promise.all(readers);
      const parts = Array.from({ length: 4 }, (_, part) => NAMES.filter((_name, index) => index % 4 === part));
      await Promise.all([
        all_read,
        Promise.all(parts.map(write)).then(() =>
          api.call('PATCH', `/projects/${id}`, { body: { project: { name: 'the end' } } }),
        ),
      ]);
      const { rows } = await api.store.pool.query<{ name: string }>(
        `select data ->> 'name' as name from coppice.events where project_id = $1 and data ->> 'name' like 'name-%'
         order by transaction, number`,
        [id],
      );
      const written = [...rows.map(({ name }) => name), 'the end'];
      for (const seen of await all_read) assert.deepEqual(seen, written, `seed ${seed}`);
    });

    it('end with the key that they were asked with', async () => {
      const { body } = await api.call('POST', '/api_keys', { body: { key_name: 'to be revoked' } });
      const stream = await follow({ key: body.key });
      await api.call('DELETE', `/api_keys/${body.id}`);
      await stream.ended;
      assert.equal((await api.call('GET', '/events', { key: body.key })).status, 401);
    });

    it('end when the server stops', async () => {
      const other = await startSecondApi(api);
      await other.app.listen({ host: '127.0.0.1', port: 0 });
      const stream = await follow({ at: other });
      await Promise.all([other.close(), stream.ended]);
    });

    describe('without a client', () => {
      const open = async ({ heartbeat_ms = 60_000, look_up }: { heartbeat_ms?: number; look_up?: () => boolean }) => {
        const changes = createChangeWatch();
        const onError = (error: unknown) => assert.fail(error as Error);
        const streams = new EventStreams(
          new EventFeed({ store: api.store.store, changes, onError }),
          onError,
          heartbeat_ms,
        );
        const { epoch, end: after } = await findEventLog(api.store.store);
        const view = { scope: { organization_ids: [] }, maySee: () => true };
        const again = async () => {
          if (look_up?.() === false) throw new Error('nothing may be seen any more');
          return view;
        };
        const body = streams.open({ epoch, after, begin: 'ready', credential: 'key:1', view, look_up: again });
        return { body, changes, streams };
      };

      it('are cut off when nobody takes what piles up', async () => {
        const { body, changes } = await open({});
        await until(
          async () => {
            await api.store.pool.query(
              `insert into coppice.events (type, subject_id, data)
               select 'test.large', 'a', jsonb_build_object('text', repeat('x', 100000)) from generate_series(1, 5)`,
            );
            changes.hear(EVENTS_CHANGED);
            return body.destroyed;
          },
          { what: 'the end of the stream' },
        );
        await api.store.pool.query(`delete from coppice.events where type = 'test.large'`);
      });

      it('show that they live, and end when their reader may see nothing any more', async () => {
        let may_see = true;
        const { body } = await open({ heartbeat_ms: 20, look_up: () => may_see });
        let told = '';
        body.on('data', (part) => {
          told += part;
        });
        const ended = new Promise((resolve) => body.once('end', resolve));
        await until(() => /^: heartbeat\nid: [0-9a-f]{8}-\d+-\d+$/m.test(told), { what: 'a heartbeat' });
        may_see = false;
        await ended;
      });
    });

    it('are for so many readers of one key', async () => {
      const { body } = await api.call('POST', '/api_keys', { body: { key_name: 'many' } });
      const streams = [];
      for (let count = 0; count < 20; count += 1) streams.push(await follow({ key: body.key }));
      const headers = { authorization: `Bearer ${body.key}`, accept: 'text/event-stream' };
      const refused = await fetch(urlOf(api), { headers });
      assert.equal(refused.status, 503);
      assert.match((await refused.json()).message, /too many/);
      await Promise.all(streams.map((stream) => stream.close()));
    });
  });

  it('that are not kept any more are said to be missing', async () => {
    const { id } = await createSleepingProject(api);
    const { events } = await page('?limit=2');
    const kept = await end();
    await forgetEvents(api.store.store, new Date(Date.now() + 1000), 1_000_000);
    assert.deepEqual((await page()).events, []);
    const gone = await api.call('GET', `/events?after=${events[0]!.id}`);
    assert.equal(gone.status, 410);
    const stream = await follow({ last_event_id: events[0]!.id });
    assert.equal((await stream.until(() => true)).type, 'reset');
    await observeEndpoint(api, (await createSleepingProject(api)).endpoint_id, 'running');
    await stream.until(({ type }) => type === 'endpoint.updated');
    await stream.close();
    await api.call('PATCH', `/projects/${id}`, { body: { project: { name: 'later' } } });
    assert.ok((await page(`?after=${kept}`)).events.length > 0);
    const elsewhere = await api.call('GET', `/events?after=00000000-${kept.split('-').slice(1).join('-')}`);
    assert.equal(elsewhere.status, 410);
    for (const after of ['x', '-1', '1-2', `${kept}0000000000000000`]) {
      assert.equal((await api.call('GET', `/events?after=${after}`)).status, 400, after);
    }
  });

  it('that were moved here from another database are begun anew', async () => {
    const kept = await end();
    await api.store.pool.query("update coppice.events set transaction = '9000000000'");
    await forgetEvents(api.store.store, new Date(0), 10);
    assert.deepEqual((await page()).events, []);
    assert.equal((await api.call('GET', `/events?after=${kept}`)).status, 410);
  });
});
