import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { BOOTSTRAP_KEY, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { until } from '../support/until.ts';

describe('Coppice that is told to stop', { timeout: 120_000 }, () => {
  let coppice: TestCoppice;
  const agent = new Agent({ keepAlive: true });

  before(async () => {
    coppice = await startCoppice();
  });
  after(async () => {
    agent.destroy();
    await coppice?.kill();
    if (coppice) await removeDataDirectory(coppice.data_directory);
  });

  const createProject = async (): Promise<number | undefined> => {
    const sent = request(`http://127.0.0.1:${coppice.api_port}/api/v2/projects`, {
      agent,
      method: 'POST',
      headers: { authorization: `Bearer ${BOOTSTRAP_KEY}`, 'content-type': 'application/json' },
    });
    sent.end('{"project":{}}');
    const [response] = await once(sent, 'response');
    response.resume();
    await once(response, 'end');
    return response.statusCode;
  };

  it('answers what was asked, and does not wait for clients that keep their connections', async () => {
    const asked = Array.from({ length: 10 }, createProject);
    await Promise.any(asked);
    coppice.process.kill('SIGTERM');
    const answers = await Promise.allSettled(asked);
    for (const answer of answers) {
      if (answer.status === 'fulfilled') assert.ok([201, 503].includes(answer.value!), String(answer.value));
      else assert.match(String(answer.reason), /ECONNRE(SET|FUSED)|socket hang up/);
    }
    await until(() => coppice.process.exitCode !== null, { what: 'Coppice to end', timeout_ms: 45_000 });
    assert.equal(coppice.process.exitCode, 0);
  });
});
