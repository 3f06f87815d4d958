import assert from 'node:assert/strict';
import { once } from 'node:events';
import { access, chmod, mkdir, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { makeDataDirectory, removeDataDirectory, spawnCoppice, startCoppice } from '../support/coppice.ts';
import { cannotMount } from '../support/filesystem.ts';

/** Starts a Coppice that cannot start, and tells its exit code and what it said. */
async function refusedStart(options: Parameters<typeof spawnCoppice>[0]): Promise<{ code: number; said: string }> {
  const { child, output } = spawnCoppice(options);
  const [code] = await once(child, 'close');
  return { code, said: output() };
}

/** One sentence for a person: no stack, and the value that is wrong. */
function assertSentence(said: string, pattern: RegExp): void {
  const lines = said.split('\n').filter((line) => line.startsWith('coppice: '));
  assert.equal(lines.length, 1, said);
  assert.match(lines[0]!, pattern);
  assert.doesNotMatch(said, /^\s+at /m);
}

describe('a Coppice that cannot start says why in one sentence', { timeout: 180_000 }, () => {
  let data_directory: string;
  beforeEach(async () => {
    data_directory = await makeDataDirectory();
  });
  afterEach(() => removeDataDirectory(data_directory));

  for (const [name, variable] of [
    ['the API', 'COPPICE_API_PORT'],
    ['the gateway', 'COPPICE_PG_PORT'],
  ] as const) {
    it(`when the port of ${name} is in use, and makes nothing`, async () => {
      const taken = createServer().listen(0, '127.0.0.1');
      await once(taken, 'listening');
      const { port } = taken.address() as AddressInfo;
      const { code, said } = await refusedStart({ data_directory, env: { [variable]: String(port) } });
      taken.close();
      assert.equal(code, 1);
      assertSentence(said, new RegExp(`port ${port} on 127\\.0\\.0\\.1 is in use.*--`));
      await assert.rejects(access(data_directory), { code: 'ENOENT' });
    });
  }

  it('when the data directory cannot be made', async () => {
    const file = join(dirname(data_directory), 'file');
    await writeFile(file, '');
    const { code, said } = await refusedStart({ data_directory: join(file, 'below') });
    assert.equal(code, 1);
    assertSentence(said, /the data directory .* cannot be written \(ENOTDIR\).*--data-dir/);
  });

  it('when the storage that was asked for does not work there', async () => {
    const { code, said } = await refusedStart({ data_directory, env: { COPPICE_STORAGE: 'btrfs' } });
    assert.equal(code, 1);
    assertSentence(said, /no storage driver works at .*btrfs: /);
  });

  it('when other users cannot enter a directory above, where computes run as such', { skip: cannotMount }, async () => {
    await chmod(dirname(data_directory), 0o700);
    const { code, said } = await refusedStart({ data_directory });
    assert.equal(code, 1);
    assertSentence(said, /is closed to other users, and computes run as such: chmod o\+x it, or choose another/);
  });

  it('when the path of the data directory leaves no room for those of sockets', async () => {
    const { code, said } = await refusedStart({ data_directory: join(dirname(data_directory), 'd'.repeat(80)) });
    assert.equal(code, 1);
    assertSentence(said, /has a path of \d+ bytes, and sockets below it leave at most \d+: choose a shorter one/);
  });

  it('when a setting has no such value, naming every one', async () => {
    const env = { COPPICE_API_PORT: 'seven', COPPICE_ROLES: 'api,cook' };
    const { code, said } = await refusedStart({ data_directory, env });
    assert.equal(code, 1);
    assert.match(said, /COPPICE_API_PORT.*"seven"/);
    assert.match(said, /COPPICE_ROLES.*cook/);
  });

  it('when the master key file holds no key', async () => {
    await mkdir(data_directory);
    await chmod(data_directory, 0o711);
    await writeFile(join(data_directory, 'master.key'), 'not a key');
    const { code, said } = await refusedStart({ data_directory });
    assert.equal(code, 1);
    assertSentence(said, /master\.key is not a master key.*32 bytes/);
  });

  it('when another Coppice has the data directory, which goes on', async () => {
    const first = await startCoppice({ data_directory });
    try {
      const { code, said } = await refusedStart({ data_directory });
      assert.equal(code, 1);
      assertSentence(said, /in use by another Coppice/);
      assert.equal((await first.call('GET', '/projects')).status, 200);
    } finally {
      await first.stop();
    }
  });

  it('when its database was written by a newer version, and leaves it as it is', async () => {
    const first = await startCoppice({ data_directory });
    await first.ownDatabase("insert into coppice.migrations (number, name, checksum) values (9999, 'later', 'x')");
    await first.stop();
    const { code, said } = await refusedStart({ data_directory });
    assert.equal(code, 1);
    assertSentence(said, /written by a newer version of Coppice: it has migration 9999/);
  });
});
