import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, afterEach, before, describe, it, mock } from 'node:test';
import pino from 'pino';
import { WEBHOOK_KEY_PURPOSE } from '../../src/domain/webhook-secret.ts';
import { sendWebhooks } from '../../src/engine/chores/send-webhooks.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { createSleepingProject, type TestProject } from '../support/project.ts';
import { until } from '../support/until.ts';
import { isSignedWith, startReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts';

/** Longer than until the second attempt, and less than a receiver may take. */
const SLOW_MS = 9_000;

describe('webhooks', { timeout: 120_000 }, () => {
  let api: TestApi;
  let project: TestProject;
  let stopping: AbortController;
  const receivers: WebhookReceiver[] = [];
  before(async () => {
    api = await startTestApi();
    project = await createSleepingProject(api);
    stopping = new AbortController();
  });
  afterEach(async () => {
    await api.store.pool.query('delete from coppice.webhooks');
    await Promise.all(receivers.splice(0).map((receiver) => receiver.close()));
  });
  after(async () => {
    stopping?.abort();
    await api?.close();
  });

  const receive = async (answers?: number[]) => {
    const receiver = await startReceiver(answers);
    receivers.push(receiver);
    return receiver;
  };
  const hooks = () => `/projects/${project.id}/webhooks`;
  const create = async (body: Record<string, unknown>, path = hooks()) => {
    const answer = await api.call('POST', path, { body });
    assert.equal(answer.status, 201, answer.body.message);
    return answer.body as { webhook: { id: string }; secret: string };
  };
  const deliveriesOf = async (id: string) => (await api.call('GET', `${hooks()}/${id}/deliveries`)).body.deliveries;
  const change = (name: string, id = project.id) =>
    api.call('PATCH', `/projects/${id}`, { body: { project: { name } } });
  const senderOf = ({ loopback = true } = {}) =>
    sendWebhooks(
      {
        intent: api.store.store,
        webhooks: { key: api.context.vault.derive(WEBHOOK_KEY_PURPOSE), loopback },
        logger: pino({ level: 'silent' }),
      },
      stopping.signal,
    );
  /** What the engine does all the time, until something has come of it. */
  const sendUntil = (condition: () => boolean | Promise<boolean>, what: string, round = senderOf()) =>
    until(
      async () => {
        await round();
        return condition();
      },
      { what },
    );
  const dueNow = () => api.store.pool.query('update coppice.webhook_deliveries set due_at = now()');

  it('get the events that they are for, signed, and each once', async () => {
    const [all, some] = [await receive(), await receive()];
    const { webhook, secret } = await create({ url: all.url });
    await create({ url: some.url, event_types: ['branch.*', 'role.created'] });
    await change('one');
    await api.call('POST', `/projects/${project.id}/branches`, { body: { branch: { name: 'told' } } });
    await sendUntil(() => all.types().includes('operation.created') && some.types().length > 0, 'the events');
    await sendUntil(
      async () => (await deliveriesOf(webhook.id)).every(({ status }: { status: string }) => status === 'delivered'),
      'the end of the deliveries',
    );
    assert.deepEqual([...all.types()].sort(), ['branch.created', 'operation.created', 'project.updated']);
    assert.deepEqual(some.types(), ['branch.created']);
    for (const one of all.received) {
      assert.ok(isSignedWith(secret, one));
      assert.equal(one.headers['webhook-id'], JSON.parse(one.body).id);
      assert.ok(Math.abs(Number(one.headers['webhook-timestamp']) - Date.now() / 1000) < 300);
    }
    const { body } = await api.call('GET', `/events?project_id=${project.id}&limit=1000`);
    assert.deepEqual(
      JSON.parse(some.received[0]!.body),
      body.events.find(({ id }: { id: string }) => id === JSON.parse(some.received[0]!.body).id),
    );
  });

  it('of an organization get those of all its projects, of a project only its own', async () => {
    const [wide, narrow] = [await receive(), await receive()];
    const org_id = (await api.call('GET', `/projects/${project.id}`)).body.project.org_id;
    const other = await createSleepingProject(api);
    await create({ url: wide.url, event_types: ['project.updated'] }, `/organizations/${org_id}/webhooks`);
    await create({ url: narrow.url, event_types: ['project.updated'] });
    await change('here');
    await change('there', other.id);
    await sendUntil(() => wide.received.length === 2 && narrow.received.length === 1, 'the events');
    assert.equal(JSON.parse(narrow.received[0]!.body).project_id, project.id);
  });

  it('are tried again later when they do not take it, for a day', async () => {
    const receiver = await receive([500, 302, 200]);
    const { webhook } = await create({ url: receiver.url, event_types: ['project.updated'] });
    await change('tried again');
    const round = senderOf();
    for (const [attempts, error] of [
      [1, 'answered 500'],
      [2, 'answered 302'],
    ]) {
      await sendUntil(async () => (await deliveriesOf(webhook.id))[0]?.attempts === attempts, 'an attempt', round);
      const [delivery] = await deliveriesOf(webhook.id);
      assert.deepEqual([delivery.status, delivery.error], ['waiting', error]);
      assert.ok(Date.parse(delivery.due_at) > Date.parse(delivery.attempted_at), 'it is not tried again at once');
      await dueNow();
    }
    await sendUntil(async () => (await deliveriesOf(webhook.id))[0].status === 'delivered', 'the delivery', round);
    const [delivered] = await deliveriesOf(webhook.id);
    assert.deepEqual([delivered.attempts, delivered.response_status, 'error' in delivered], [3, 200, false]);
    assert.equal(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size, 1);
  });

  it('are tried again as long after an attempt that took its time', async () => {
    const began = Date.now();
    const slow = createServer((_request, response) => {
      mock.timers.tick(SLOW_MS);
      response.writeHead(500).end();
    });
    slow.listen(0, '127.0.0.1');
    await once(slow, 'listening');
    const url = `http://127.0.0.1:${(slow.address() as AddressInfo).port}/hook`;
    const { webhook } = await create({ url, event_types: ['project.updated'] });
    await change('taken slowly');
    mock.timers.enable({ apis: ['Date'], now: began });
    try {
      await sendUntil(async () => (await deliveriesOf(webhook.id))[0]?.attempts === 1, 'an attempt');
    } finally {
      mock.timers.reset();
      slow.close();
    }
    const [{ due_at }] = await deliveriesOf(webhook.id);
    assert.ok(Date.parse(due_at) > began + SLOW_MS, due_at);
  });

  it('that never take it are given up, and get it when somebody asks for it once more', async () => {
    const receiver = await receive([503, 200]);
    const { webhook } = await create({ url: receiver.url, event_types: ['project.updated'] });
    await change('given up');
    const round = senderOf();
    await sendUntil(async () => (await deliveriesOf(webhook.id))[0]?.attempts === 1, 'an attempt', round);
    await api.store.pool.query("update coppice.webhook_deliveries set created_at = now() - interval '25 hours'");
    receiver.answers.unshift(503);
    await dueNow();
    await sendUntil(async () => (await deliveriesOf(webhook.id))[0].status === 'failed', 'the end', round);
    const [failed] = await deliveriesOf(webhook.id);
    assert.deepEqual([failed.attempts, failed.error, 'due_at' in failed], [2, 'answered 503', false]);
    const again = await api.call('POST', `${hooks()}/${webhook.id}/deliveries/${failed.id}/redeliver`);
    assert.deepEqual([again.status, again.body.delivery.event_id], [201, failed.event_id]);
    await sendUntil(async () => (await deliveriesOf(webhook.id))[0].status === 'delivered', 'the delivery', round);
    assert.equal(receiver.received.at(-1)!.body, receiver.received[0]!.body);
    const page = await api.call('GET', `${hooks()}/${webhook.id}/deliveries?limit=1`);
    const next = await api.call('GET', `${hooks()}/${webhook.id}/deliveries?cursor=${page.body.pagination.cursor}`);
    assert.deepEqual(next.body.deliveries, [failed]);
  });

  it('are signed with the former secret, too, for a day after it was changed', async () => {
    const receiver = await receive();
    const { webhook, secret } = await create({ url: receiver.url, event_types: ['project.updated'] });
    const rotated = await api.call('POST', `${hooks()}/${webhook.id}/rotate_secret`);
    assert.notEqual(rotated.body.secret, secret);
    await change('both');
    await sendUntil(() => receiver.received.length === 1, 'the event');
    await api.store.pool.query("update coppice.webhooks set former_secret_until = now() - interval '1 second'");
    await change('one');
    await sendUntil(() => receiver.received.length === 2, 'the event');
    const [first, second] = receiver.received;
    assert.deepEqual([isSignedWith(secret, first!), isSignedWith(rotated.body.secret, first!)], [true, true]);
    assert.deepEqual([isSignedWith(secret, second!), isSignedWith(rotated.body.secret, second!)], [false, true]);
    const { rows } = await api.store.pool.query('select * from coppice.webhooks');
    assert.equal(JSON.stringify(rows).includes(rotated.body.secret), false);
    assert.equal(JSON.stringify((await api.call('GET', hooks())).body).includes('whsec_'), false);
  });

  it('that do not answer hold up nobody else', async () => {
    const [silent, good] = [await receive([0]), await receive()];
    await create({ url: silent.url, event_types: ['project.updated'] });
    await create({ url: good.url, event_types: ['project.updated'] });
    for (let count = 0; count < 20; count += 1) await change(`number ${count}`);
    const round = senderOf();
    await sendUntil(() => good.received.length === 20 && silent.received.length > 0, 'the events', round);
    assert.ok(silent.received.length <= 5, 'only so many are under way to one');
  });

  it('are nowhere that only this machine can reach, whatever leads there', async () => {
    for (const url of ['http://169.254.169.254/latest', 'https://[fe80::1]/', 'http://example.com/', 'ftp://a/', 'x']) {
      const answer = await api.call('POST', hooks(), { body: { url } });
      assert.deepEqual([answer.status, /"url"/.test(answer.body.message)], [400, true], url);
    }
    const receiver = await receive();
    const { webhook } = await create({ url: receiver.url.replace('127.0.0.1', 'localhost') });
    await api.store.pool.query("update coppice.webhooks set url = replace(url, 'http:', 'https:')");
    await change('not told');
    await sendUntil(
      async () => (await deliveriesOf(webhook.id))[0]?.attempts === 1,
      'an attempt',
      senderOf({ loopback: false }),
    );
    assert.match((await deliveriesOf(webhook.id))[0].error, /this machine, its link or a metadata service/);
    assert.deepEqual(receiver.received, []);
  });

  it('get what is planned once, however many plan and send', async () => {
    const receiver = await receive();
    const { webhook } = await create({ url: receiver.url, event_types: ['project.updated'] });
    for (let count = 0; count < 10; count += 1) await change(`planned ${count}`);
    const rounds = Array.from({ length: 4 }, () => senderOf());
    await sendUntil(
      () => receiver.received.length >= 10,
      'the events',
      async () => {
        await Promise.all(rounds.map((round) => round()));
        return true;
      },
    );
    assert.equal(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size, 10);
    assert.equal((await deliveriesOf(webhook.id)).length, 10);
    assert.equal(receiver.received.length, 10);
  });

  it('are listed and deleted, and are so many at most', async () => {
    const { webhook } = await create({ url: 'https://a.example.test/', event_types: ['branch.*', 'branch.*'] });
    const { body } = await api.call('GET', hooks());
    assert.deepEqual(body.webhooks, [webhook]);
    for (let count = 1; count < 20; count += 1) await create({ url: 'https://a.example.test/' });
    const refused = await api.call('POST', hooks(), { body: { url: 'https://a.example.test/' } });
    assert.deepEqual([refused.status, refused.body.code], [422, 'WEBHOOKS_LIMIT_EXCEEDED']);
    assert.equal((await api.call('DELETE', `${hooks()}/${webhook.id}`)).status, 200);
    for (const [method, path] of [
      ['DELETE', ''],
      ['GET', '/deliveries'],
      ['POST', '/rotate_secret'],
      ['POST', `/deliveries/${webhook.id}/redeliver`],
    ] as const) {
      assert.equal((await api.call(method, `${hooks()}/${webhook.id}${path}`)).status, 404, `${method} ${path}`);
    }
  });
});
