import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { isProcess } from '../../src/drivers/compute/process/processes.ts';
import { removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { query } from '../support/customer.ts';
import { createLiveProject, dataDirectoryOf, type LiveProject, postmasterPid } from '../support/live-project.ts';
import { until } from '../support/until.ts';

describe('a compute that hangs', { timeout: 240_000 }, () => {
  let coppice: TestCoppice;

  before(async () => {
    coppice = await startCoppice();
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
  });

  /** Freezes every process of a project's server; returns the first one's pid. */
  const freeze = async ({ uri }: LiveProject): Promise<number> => {
    const pid = await postmasterPid(await dataDirectoryOf(uri));
    process.kill(pid, 'SIGSTOP');
    for (const child of (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim().split(' ')) {
      process.kill(Number(child), 'SIGSTOP');
    }
    return pid;
  };
  const untilEnded = (pid: number) => until(() => !isProcess(pid), { what: 'the server to end', timeout_ms: 120_000 });

  it('ends in bounded time, while others are put to sleep, woken and deleted as ever', async () => {
    const idle = { default_endpoint_settings: { suspend_timeout_seconds: 1 } };
    const [suspended, deleted, forgotten, other] = await Promise.all(
      [{}, {}, idle, {}].map((project) => createLiveProject(coppice, project)),
    );
    const pids = await Promise.all([suspended!, deleted!, forgotten!].map(freeze));
    const { operations } = await coppice.must('POST', `${suspended!.endpoint_path}/suspend`);
    await coppice.must('DELETE', deleted!.path);

    await coppice.must('PATCH', other!.endpoint_path, { endpoint: { suspend_timeout_seconds: 1 } });
    await other!.untilState('idle');
    assert.deepEqual(await query(other!.uri, 'select 1 as one'), [{ one: 1 }]);
    const awake = await postmasterPid(await dataDirectoryOf(other!.uri));
    await coppice.must('DELETE', other!.path);
    await untilEnded(awake);
    const { status } = await suspended!.operation(operations[0].id);
    assert.equal(status, 'running', 'all that happened while the other one hung');

    // One that nobody asks to stop is not found idle, since it does not answer; a person can still stop it.
    assert.equal(await forgotten!.state(), 'active');
    await coppice.must('DELETE', forgotten!.path);
    await Promise.all(pids.map(untilEnded));
    await coppice.settled(suspended!.id);
    assert.equal(await suspended!.state(), 'idle');
    assert.deepEqual(await query(suspended!.uri, 'select 1 as one'), [{ one: 1 }]);
  });
});
