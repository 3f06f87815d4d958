import assert from 'node:assert/strict';
import { readFile, symlink, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { newApiKey } from '../../src/domain/credentials.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { type Neonctl, openNeonctl } from '../support/neonctl.ts';
import { CONFIG_POLICY, neonctlCommands } from '../support/neonctl-commands.ts';
import { createSleepingProject, finishOperations, type TestProject } from '../support/project.ts';

const SNAPSHOT = new URL('./neonctl-output.snapshot.txt', import.meta.url);
const NODE_MODULES = fileURLToPath(new URL('../../node_modules', import.meta.url));
const ENGINE_EVERY_MS = 100;

/** Ids are numbered as they come; times, secrets and places are left out, and so is what aligns tables. */
function lasting(text: string, home: string): string {
  const numbers = new Map<string, string>();
  const numbered = (kind: string, id: string) => {
    const known =
      numbers.get(id) ?? `<${kind} ${[...numbers.values()].filter((one) => one.startsWith(`<${kind} `)).length + 1}>`;
    numbers.set(id, known);
    return known;
  };
  return text
    .replaceAll(home, '<home>')
    .replace(/(?<=\b|%3D)(br|ep|org|snap)-[a-z]+-[a-z]+-[a-z0-9]{8}\b/g, (id, kind) => numbered(kind, id))
    .replace(/\b[a-z]+-[a-z]+-\d{8}\b/g, (id) => numbered('project', id))
    .replace(/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, '<uuid>')
    .replace(/\bnpg_\w+/g, '<password>')
    .replace(/\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| ?UTC)?/g, (time) =>
      time.startsWith('2025-01-01') ? time : '<time>',
    )
    .replace(/127\.0\.0\.1:\d+/g, '<api>')
    .replace(/\b(id"?: )\d+/g, '$1<number>')
    .replace(/"total_duration_ms": \d+/g, '"total_duration_ms": <number>')
    .replace(/[─━═]+/g, '─')
    .replace(/ {3,}/g, '  ')
    .replace(/ +$/gm, '');
}

describe('what neonctl prints, unmodified', { timeout: 300_000 }, () => {
  let api: TestApi;
  let project: TestProject;
  let neonctl: Neonctl;
  before(async () => {
    api = await startTestApi();
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    const { port } = api.app.server.address() as AddressInfo;
    neonctl = await openNeonctl({ api_port: port, key: api.key });
    await writeFile(join(neonctl.home, CONFIG_POLICY.file), CONFIG_POLICY.text);
    await symlink(NODE_MODULES, join(neonctl.home, 'node_modules'));
    project = await createSleepingProject(api);
  });
  after(async () => {
    await api?.close();
    await neonctl?.remove();
  });

  const endOperations = async () => {
    for (const { id } of await api.store.store.selectFrom('projects').select('id').execute()) {
      await finishOperations(api, id);
    }
  };
  /** Some commands wait for what they have begun; what the last one began has ended afterwards, too. */
  const whileOperationsEnd = async <T>(work: Promise<T>): Promise<T> => {
    const over = new AbortController();
    const finishing = (async () => {
      while (!over.signal.aborted) {
        await endOperations();
        await delay(ENGINE_EVERY_MS, undefined, { signal: over.signal }).catch(() => undefined);
      }
    })();
    try {
      return await work;
    } finally {
      over.abort();
      await finishing;
      await endOperations();
    }
  };

  it('is what it printed before; a change of it is meant and seen', async () => {
    const { organizations } = (await api.call('GET', '/users/me/organizations')).body;
    const world = { project_id: project.id, org_id: organizations[0].id, wrong_key: newApiKey() };
    let printed = '';
    for (const group of neonctlCommands(world)) {
      const outputs = await whileOperationsEnd(Promise.all(group.map((words) => neonctl.transcript(...words))));
      printed += group.map((words, at) => `$ neonctl ${words.join(' ')}\n${outputs[at]}\n`).join('');
    }
    const pulled = await readFile(join(neonctl.home, '.env.pulled'), 'utf8');
    const described = lasting(`${printed}$ cat .env.pulled\n${pulled}`, neonctl.home).replaceAll(
      world.wrong_key,
      '<key>',
    );
    if (process.env.COPPICE_TEST_WRITE_SNAPSHOT) await writeFile(SNAPSHOT, described);
    assert.equal(described, await readFile(SNAPSHOT, 'utf8'));
  });
});
