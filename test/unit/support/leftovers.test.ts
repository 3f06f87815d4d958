import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { findLeftovers, processesUsing } from '../../support/leftovers.ts';

test('a process that a test forgot is found by its working directory, and files are found', async (t) => {
  const directory = await realpath(await mkdtemp(join(tmpdir(), 'left-')));
  t.after(() => rm(directory, { recursive: true, force: true }));
  assert.deepEqual(await findLeftovers(directory), []);

  await mkdir(join(directory, 'data'));
  const forgotten = spawn('sleep', ['600'], {
    cwd: join(directory, 'data'),
    env: { PATH: process.env.PATH },
    stdio: 'ignore',
  });
  t.after(() => forgotten.kill('SIGKILL'));
  await once(forgotten, 'spawn');
  assert.deepEqual(processesUsing(directory), [{ pid: forgotten.pid, title: 'sleep 600' }]);
  assert.deepEqual(await findLeftovers(directory, { patience_ms: 0 }), [
    `process ${forgotten.pid}: sleep 600`,
    `file ${directory}/data`,
  ]);
});
