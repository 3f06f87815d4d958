import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { access } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { makeDataDirectory, removeDataDirectory, startCoppice, type TestCoppice } from '../support/coppice.ts';
import { cannotMount } from '../support/filesystem.ts';
import { linkToken, postLogin } from '../support/login-over-socket.ts';

const COPPICE = fileURLToPath(new URL('../../bin/coppice.ts', import.meta.url));

interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

function coppice(data_directory: string, ...given: (string | { input: string })[]): Promise<Ended> {
  const args = given.filter((one) => typeof one === 'string');
  const [piped] = given.filter((one) => typeof one === 'object');
  const { PATH, HOME, NODE_COMPILE_CACHE } = process.env;
  const env = { PATH, HOME, NODE_COMPILE_CACHE, COPPICE_DATA_DIR: data_directory };
  const { promise, resolve } = Promise.withResolvers<Ended>();
  const child = execFile(process.execPath, [COPPICE, ...args], { env }, (error, out, err) => {
    resolve({ code: error ? Number(error.code) : 0, out, err });
  });
  child.stdin!.end(piped?.input);
  return promise;
}

describe('the commands of Coppice', { timeout: 300_000 }, () => {
  let running: TestCoppice;
  const run = (...args: string[]) => coppice(running.data_directory, ...args);

  before(async () => {
    running = await startCoppice();
  });
  after(async () => {
    await running.stop();
    await removeDataDirectory(running.data_directory);
  });

  for (const command of [
    '',
    'up',
    'status',
    'doctor',
    'export',
    'keys',
    'keys create',
    'keys list',
    'keys revoke',
    'users',
    'users create',
    'users list',
    'users reset',
    'backup',
    'restore',
    'pool',
    'pool create',
    'pool status',
    'version',
  ]) {
    it(`${command || 'coppice'} --help tells what it does`, async () => {
      const { code, out } = await run(...command.split(' ').filter(Boolean), '--help');
      assert.equal(code, 0);
      assert.match(out, new RegExp(`^Usage: coppice ${command}`));
      assert.ok(out.split('\n').length > 3, out);
    });
  }

  it('up --help shows every setting that is no secret, and no secret as a flag', async () => {
    const { out } = await run('up', '--help');
    for (const flag of ['--data-dir', '--api-port', '--pg-port', '--domain', '--storage', '--keep-computes']) {
      assert.ok(out.includes(flag), flag);
    }
    assert.doesNotMatch(out, /--bootstrap-api-key|--database-url/);
  });

  it('version is that of the package', async () => {
    const { out } = await run('version');
    assert.match(out, /^\d+\.\d+\.\d+\n$/);
    assert.equal((await run('--version')).out, out);
  });

  it('keys create prints a key and nothing else, which works until it is revoked', async () => {
    const { out: key, err } = await run('keys', 'create', '--name', 'from a test');
    assert.equal(err, '');
    assert.match(key, /^napi_[0-9a-f]{64}\n$/);
    const me = () =>
      fetch(`http://127.0.0.1:${running.api_port}/api/v2/users/me`, {
        headers: { authorization: `Bearer ${key.trim()}` },
      }).then(({ status }) => status);
    assert.equal(await me(), 200);

    const { out: listed } = await run('keys', 'list');
    const line = listed.split('\n').find((text) => text.endsWith('from a test'))!;
    assert.ok(line, listed);
    assert.ok(!listed.includes(key.trim()));

    const id = line.split(' ')[0]!;
    assert.equal((await run('keys', 'revoke', id)).out, `Key ${id} is revoked.\n`);
    assert.equal(await me(), 401);
    const again = await run('keys', 'revoke', id);
    assert.equal(again.code, 1);
    assert.equal(again.err, 'coppice: API key not found\n');
  });

  it('keys create --read-only makes a key that may look and change nothing', async () => {
    const { out: key } = await run('keys', 'create', '--read-only', '--name', 'looks');
    const call = (method: string, path: string) =>
      fetch(`http://127.0.0.1:${running.api_port}/api/v2${path}`, {
        method,
        headers: { authorization: `Bearer ${key.trim()}` },
      }).then(({ status }) => status);
    assert.deepEqual([await call('GET', '/users/me'), await call('POST', '/projects')], [200, 403]);
    assert.match((await run('keys', 'list')).out, / looks \(read-only\)$/m);
  });

  it('users create makes somebody who may call, once for each address', async () => {
    const { out: key, err } = await run('users', 'create', '--email', 'new@example.test', '--name', 'New');
    assert.equal(err, '');
    assert.match(key, /^napi_[0-9a-f]{64}\n$/);
    const answer = await fetch(`http://127.0.0.1:${running.api_port}/api/v2/users/me`, {
      headers: { authorization: `Bearer ${key.trim()}` },
    });
    const me = (await answer.json()) as { email: string; name: string };
    assert.deepEqual([me.email, me.name], ['new@example.test', 'New']);
    const second = await run('keys', 'create', '--email', 'NEW@example.test', '--name', 'of the new one');
    assert.match(second.out, /^napi_[0-9a-f]{64}\n$/);
    assert.match((await run('keys', 'list', '--email', 'new@example.test')).out, /of the new one$/m);
    assert.doesNotMatch((await run('keys', 'list')).out, /of the new one/);
    const stranger = await run('keys', 'list', '--email', 'stranger@example.test');
    assert.deepEqual(
      [stranger.code, stranger.err],
      [1, 'coppice: user with the address stranger@example.test not found\n'],
    );
    const again = await run('users', 'create', '--email', 'New@example.test');
    assert.deepEqual([again.code, again.err], [1, 'coppice: user already exists; email:"New@example.test"\n']);
    const none = await run('users', 'create', '--email', 'nobody');
    assert.deepEqual([none.code, /"nobody" is not an e-mail address/.test(none.err)], [1, true]);
  });

  it('users reset prints a link with which the person sets a password, and lets in with it', async () => {
    const { out, err } = await run('users', 'reset', '--email', 'admin@coppice.localhost');
    assert.equal(err, '');
    assert.match(out, /^http:\/\/localhost:\d+\/login\/link#[\w-]{43}\n$/);
    const [email, password] = ['admin@coppice.localhost', 'a password of a test'];
    assert.equal((await postLogin(running, '/use-link', { token: linkToken(out), password })).status, 200);
    const plain = await postLogin(running, '/sign-in/email', { email, password });
    assert.equal(plain.status, 200, plain.body);
    assert.match(plain.cookies[0]!, /^coppice\.session_token=(?!.*Secure)/);
    const over_tls = await postLogin(running, '/sign-in/email', { email, password }, { tls: true });
    assert.equal(over_tls.status, 200, over_tls.body);
    assert.match(over_tls.cookies[0]!, /^__Host-coppice\.session_token=.*; Secure/);
    assert.match((await run('users', 'list')).out, /^admin@coppice\.localhost .* password +2 logged in$/m);

    const piped = await coppice(
      running.data_directory,
      'users',
      'reset',
      '--email',
      'admin@coppice.localhost',
      '--password',
      {
        input: 'another password of a test\n',
      },
    );
    assert.equal(piped.code, 0, piped.err);
    assert.match((await run('users', 'list')).out, /^admin@coppice\.localhost .* password +0 logged in$/m);
    const stranger = await run('users', 'reset', '--email', 'stranger@example.test');
    assert.deepEqual([stranger.code, /not found/.test(stranger.err)], [1, true]);
  });

  it('a key without a sound name is refused before anything is made', async () => {
    const { code, err } = await run('keys', 'create', '--name', 'x'.repeat(65));
    assert.equal(code, 1);
    assert.match(err, /at most 64 characters/);
  });

  it('status tells what there is, for people and for programs', async () => {
    const { out } = await run('status');
    assert.match(out, /^projects +0$/m);
    assert.match(out, /^storage +(copy|reflink|btrfs), [\d.]+ of [\d.]+ GiB free$/m);
    const status = JSON.parse((await run('status', '--json')).out);
    assert.equal(status.projects, 0);
    assert.equal(status.data_directory, running.data_directory);
  });

  it('doctor looks at everything and finds nothing broken', async () => {
    const { code, out } = await run('doctor');
    assert.equal(code, 0, out);
    for (const subject of [
      'data directory',
      'trust',
      'limits',
      'Postgres',
      'storage',
      'names',
      'servers',
      'operations',
    ]) {
      assert.match(out, new RegExp(`^(ok  |note)  ${subject}: `, 'm'));
    }
    assert.doesNotMatch(out, /^BAD/m);
  });

  it('pool create leaves a Coppice alone that runs', async () => {
    const { code, err } = await run('pool', 'create', '--size', '320M');
    assert.equal(code, 1);
    assert.match(err, /^coppice: (the data directory .* is in use by another Coppice|only root can)/);
  });

  it('pool status shows where volumes lie', async () => {
    const { out } = await run('pool', 'status');
    assert.match(out, /^driver +(copy|reflink|btrfs)$/m);
  });

  it('an unknown command is refused with where to look', async () => {
    const { code, err } = await run('upp');
    assert.equal(code, 1);
    assert.match(err, /unknown command 'upp'.*\n?.*Did you mean up\?/);
  });
});

describe('a command that needs a Coppice where none runs', { timeout: 60_000 }, () => {
  it('says so, and how to start one', async () => {
    const data_directory = await makeDataDirectory();
    try {
      for (const command of [['keys', 'list'], ['status']]) {
        const { code, err } = await coppice(data_directory, ...command);
        assert.equal(code, 1);
        assert.match(err, /^coppice: no Coppice answers on .*: start it with npm start/);
      }
    } finally {
      await removeDataDirectory(data_directory);
    }
  });
});

describe('pool create after a first start', { timeout: 300_000, skip: cannotMount }, () => {
  it('gives instant branches from the next start, and is refused once there is a project', async () => {
    const data_directory = await makeDataDirectory();
    const create = () => coppice(data_directory, 'pool', 'create', '--size', '400M');
    try {
      await (await startCoppice({ data_directory })).stop();
      const { out, err } = await create();
      assert.match(out, /^The pool of 400 MiB is mounted at /, err);
      const second = await startCoppice({ data_directory });
      await second.must('POST', '/projects', { project: {} });
      assert.match((await coppice(data_directory, 'pool', 'unmount')).err, /in use by another Coppice/);
      await second.stop();
      assert.match(second.output(), /^ +data .*\(reflink\)$/m);
      assert.match((await create()).err, /^coppice: there is a pool already: /);
    } finally {
      await coppice(data_directory, 'pool', 'unmount');
      await removeDataDirectory(data_directory);
    }
  });

  it('is refused where there are projects, which stay', async () => {
    const data_directory = await makeDataDirectory();
    try {
      const first = await startCoppice({ data_directory });
      const { project } = await first.must('POST', '/projects', { project: {} });
      // Before its volume is made there is only a template, which would go.
      await first.settled(project.id);
      await first.stop();
      const volumes = async () =>
        /^volumes +(\d+)$/m.exec((await coppice(data_directory, 'pool', 'status')).out)?.[1] ?? '';
      const before = await volumes();
      const { code, err } = await coppice(data_directory, 'pool', 'create', '--size', '400M');
      assert.equal(code, 1);
      assert.match(err, new RegExp(`holds ${before} volumes already`));
      assert.ok(Number(before) > 1, before);
      assert.equal(await volumes(), before);
    } finally {
      await removeDataDirectory(data_directory);
    }
  });
});

describe('doctor where nothing was ever started', { timeout: 60_000 }, () => {
  it('changes nothing', async () => {
    const data_directory = await makeDataDirectory();
    try {
      const { code, out } = await coppice(data_directory, 'doctor');
      assert.equal(code, 0, out);
      await assert.rejects(access(data_directory), { code: 'ENOENT' });
    } finally {
      await removeDataDirectory(data_directory);
    }
  });
});
