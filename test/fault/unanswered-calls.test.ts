import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import pg from 'pg';
import {
  BOOTSTRAP_KEY,
  makeStartedDirectory,
  removeDataDirectory,
  startCoppice,
  type TestCoppice,
} from '../support/coppice.ts';
import { createLiveProject } from '../support/live-project.ts';
import { until } from '../support/until.ts';
import { isSignedWith, startReceiver } from '../support/webhook-receiver.ts';

describe('Coppice is killed before it has answered, or was answered', { timeout: 300_000 }, () => {
  let data_directory: string;
  let stop_point: string;
  let coppice: TestCoppice;
  let project_id: string;
  let project: string;

  const start = () => startCoppice({ data_directory, env: { COPPICE_TEST_STOP_POINT: stop_point } });
  before(async () => {
    data_directory = await makeStartedDirectory();
    stop_point = join(data_directory, '../stop-point');
    await writeFile(stop_point, '');
    coppice = await start();
    ({ id: project_id, path: project } = await createLiveProject(coppice));
  });
  after(async () => {
    await coppice?.stop();
    if (data_directory) await removeDataDirectory(data_directory);
  });

  const post = async (key: string, name: string, headers: Record<string, string> = {}) => {
    const response = await fetch(`http://127.0.0.1:${coppice.api_port}/api/v2${project}/branches`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${BOOTSTRAP_KEY}`,
        'content-type': 'application/json',
        'idempotency-key': key,
        ...headers,
      },
      body: JSON.stringify({ branch: { name } }),
    });
    const body = (await response.json()) as { branch: { id: string } };
    return { status: response.status, replayed: response.headers.get('idempotency-replayed'), id: body.branch?.id };
  };
  const idsOf = async (name: string): Promise<string[]> => {
    const { branches } = await coppice.must('GET', `${project}/branches`);
    return branches
      .filter((branch: { name: string }) => branch.name === name)
      .map((branch: { id: string }) => branch.id);
  };

  it('and a call with a key that was not done yet is done once, when it is repeated', async () => {
    const holder = new pg.Client({
      ...{ host: join(data_directory, 'run/store'), user: 'cloud_admin', database: 'coppice' },
    });
    await holder.connect();
    try {
      // It is in the middle of its transaction, with the key written, when the process dies.
      await holder.query('begin');
      await holder.query('select from coppice.projects where id = $1 for update', [project_id]);
      const unanswered = assert.rejects(post('held-up', 'held-up'));
      await until(
        async () => {
          const waiting = await coppice.ownDatabase(
            "select from pg_stat_activity where wait_event_type = 'Lock' and query ilike '%projects%'",
          );
          return waiting.rowCount! > 0;
        },
        { what: 'the call to be held up' },
      );
      await coppice.kill();
      await unanswered;
    } finally {
      await holder.end();
    }
    coppice = await start();
    const first = await post('held-up', 'held-up');
    assert.deepEqual([first.status, first.replayed], [201, null]);
    assert.deepEqual(await idsOf('held-up'), [first.id]);
    assert.deepEqual(await post('held-up', 'held-up'), { ...first, replayed: 'true' });
    await coppice.settled(project_id);
  });

  it('and a call with a key that was done is answered, and not done again', async () => {
    const ended = once(coppice.process, 'exit');
    await writeFile(stop_point, 'create_branch:begin');
    // It waits for the branch, which is not there before the process dies.
    await assert.rejects(post('done', 'done', { prefer: 'wait=60' }));
    await ended;
    assert.equal(coppice.process.signalCode, 'SIGKILL');
    await writeFile(stop_point, '');
    coppice = await start();
    const made = await idsOf('done');
    const again = await post('done', 'done');
    assert.deepEqual([again.status, again.replayed, [again.id]], [201, 'true', made]);
    await coppice.settled(project_id);
    assert.deepEqual(await idsOf('done'), made);
    const { operations } = await coppice.must('GET', `${project}/operations`);
    const creations = operations.filter(
      (operation: { action: string; branch_id: string }) =>
        operation.action === 'create_branch' && operation.branch_id === again.id,
    );
    assert.deepEqual(
      creations.map(({ status }: { status: string }) => status),
      ['finished'],
    );
  });

  it('and a webhook that was under way is sent again, the same and signed, and once more when somebody asks', async () => {
    const receiver = await startReceiver([0]);
    try {
      const hooks = `${project}/webhooks`;
      const { webhook, secret } = await coppice.must('POST', hooks, {
        ...{ url: receiver.url, event_types: ['project.updated'] },
      });
      const deliveries = async () => (await coppice.must('GET', `${hooks}/${webhook.id}/deliveries`)).deliveries;
      await coppice.must('PATCH', project, { project: { name: 'told of' } });
      await until(() => receiver.received.length === 1, { what: 'the webhook' });
      await coppice.kill();
      receiver.answers[0] = 204;
      coppice = await start();
      assert.deepEqual(
        (await deliveries()).map(({ status }: { status: string }) => status),
        ['waiting'],
      );
      // Whoever began it has a minute to say what came of it.
      await coppice.ownDatabase('update coppice.webhook_deliveries set due_at = now()');
      await until(async () => (await deliveries())[0].status === 'delivered', { what: 'the delivery' });
      const [delivered] = await deliveries();
      await coppice.must('POST', `${hooks}/${webhook.id}/deliveries/${delivered.id}/redeliver`);
      await until(async () => (await deliveries())[0].status === 'delivered', {
        what: 'the delivery that was asked for',
      });
      assert.equal(receiver.received.length, 3);
      for (const one of receiver.received) {
        assert.ok(isSignedWith(secret, one));
        assert.equal(one.body, receiver.received[0]!.body);
        assert.equal(one.headers['webhook-id'], receiver.received[0]!.headers['webhook-id']);
      }
    } finally {
      await receiver.close();
    }
  });
});
