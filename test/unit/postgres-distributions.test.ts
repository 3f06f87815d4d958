import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  type Distribution,
  ensureDistributions,
  listDistributions,
  newestDistribution,
} from '../../src/postgres/distributions.ts';
import { allowedExtension, rewriteControlFile } from '../../src/postgres/extensions.ts';

/** Never to be had: languages that reach the machine, files, pages, and anybody's WAL. */
const FORBIDDEN =
  /^(pltcl|plperl|plpython|.*_plperl|.*_plpython|file_fdw|pageinspect|pg_surgery|adminpack|pg_walinspect|pg_logicalinspect|old_snapshot|sslinfo|xml2)/;

let directory: string;
let distributions: Distribution[];
before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'coppice-distributions-'));
  distributions = await ensureDistributions(directory);
});
after(() => rm(directory, { recursive: true, force: true }));

const extensionsOf = async ({ share }: Distribution): Promise<string[]> =>
  (await readdir(join(share, 'extension')))
    .filter((name) => name.endsWith('.control'))
    .map((name) => name.slice(0, -'.control'.length));

test('the shipped majors are there, pinned by version and by what decides the order of texts', () => {
  const shipped = distributions.filter(({ source }) => source === 'npm');
  assert.deepEqual(
    shipped.map(({ major }) => major),
    [18, 17, 16],
  );
  for (const { id, major, version, icu, libc } of shipped) {
    assert.equal(id, `npm-${version}-${process.platform}-${process.arch}`);
    assert.equal(Number.parseInt(version, 10), major);
    assert.match(icu ?? '', /^\d+$/);
    assert.match(libc, /^(glibc \d|musl|darwin)/);
  }
});

test('a server of the system is taken along where one is installed', async () => {
  const installed = (await readdir('/usr/lib/postgresql').catch(() => [])).filter((name) => /^1[5-8]$/.test(name));
  const taken = distributions.filter(({ source }) => source === 'system');
  assert.deepEqual(new Set(taken.map(({ major }) => String(major))), new Set(installed));
});

test('each copy stands alone and starts for whoever runs it', async () => {
  const someone = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
  for (const { root, version, source } of distributions) {
    const told = execFileSync(join(root, 'bin/postgres'), ['--version'], { env: {}, ...someone }).toString();
    assert.ok(told.includes(version), told);
    if (source !== 'npm') continue;
    const libraries = await readdir(join(root, 'lib'), { withFileTypes: true });
    for (const { name } of libraries.filter((entry) => entry.isSymbolicLink())) {
      assert.ok((await realpath(join(root, 'lib', name))).startsWith(await realpath(root)), name);
      assert.ok(!(await readlink(join(root, 'lib', name))).startsWith('/'), name);
    }
  }
});

test('nothing but the allow-list can be found by CREATE EXTENSION', async () => {
  for (const distribution of distributions) {
    const found = await extensionsOf(distribution);
    assert.ok(found.includes('plpgsql') && found.includes('pg_trgm') && found.includes('pg_stat_statements'));
    assert.deepEqual(
      found.filter((name) => FORBIDDEN.test(name)),
      [],
    );
    const files = await readdir(join(distribution.share, 'extension'));
    assert.deepEqual(
      files.filter((name) => FORBIDDEN.test(name)),
      [],
    );
    assert.equal(found.includes('dblink'), distribution.major < 18, `dblink on ${distribution.major}`);
  }
});

test('customers may create what is trusted upstream or was reviewed, and only that', async () => {
  for (const distribution of distributions) {
    for (const name of await extensionsOf(distribution)) {
      const trust = allowedExtension(name, distribution.major)?.trust;
      assert.ok(trust, name);
      if (trust === 'upstream') continue;
      const text = await readFile(join(distribution.share, `extension/${name}.control`), 'utf8');
      assert.equal(/^trusted = true$/m.test(text), trust === 'reviewed', `${name} on ${distribution.major}`);
    }
  }
});

test('a control file keeps what it says but for who is trusted', () => {
  const text = "comment = 'x'\ntrusted=false\nrelocatable = true\n";
  assert.equal(rewriteControlFile(text, { name: 'x', trust: 'upstream' }), text);
  const made = rewriteControlFile(text, { name: 'x', trust: 'reviewed' });
  assert.match(made, /comment = 'x'\nrelocatable = true\n\n?trusted = true\n/);
  assert.doesNotMatch(made, /false/);
});

test('the newest of a major is chosen, and the npm build where an installed one is no newer', () => {
  const make = (id: string, version: string, source: 'npm' | 'system') =>
    ({ id, version, source, major: Number.parseInt(version, 10) }) as Distribution;
  const npm = make('a', '17.9', 'npm');
  const same = make('b', '17.9', 'system');
  const newer = make('c', '17.10', 'system');
  assert.equal(newestDistribution([same, npm], 17)?.id, 'a');
  assert.equal(newestDistribution([newer, npm], 17)?.id, 'c');
  assert.equal(newestDistribution([npm], 16), undefined);
});

describe('a second start', () => {
  test('changes nothing, and mends what is not as the allow-list wants it', async () => {
    const [first] = distributions as [Distribution];
    const extensions = join(first.share, 'extension');
    const before = await stat(join(extensions, 'plpgsql.control'));
    await writeFile(join(extensions, 'file_fdw.control'), 'trusted = true\n');
    await writeFile(join(extensions, 'amcheck.control'), 'trusted = true\n');
    assert.deepEqual(await ensureDistributions(directory), distributions);
    const after = await stat(join(extensions, 'plpgsql.control'));
    assert.equal(after.ino, before.ino);
    assert.ok(!(await extensionsOf(first)).includes('file_fdw'));
    assert.match(await readFile(join(extensions, 'amcheck.control'), 'utf8'), /^trusted = false$/m);
  });

  test('removes what a killed one left half made, and keeps copies that volumes may be pinned to', async () => {
    const home = join(directory, 'distributions');
    await mkdir(join(home, '.unfinished-npm-17.1-0/bin'), { recursive: true });
    const old = distributions.find(({ major }) => major === 16) as Distribution;
    const kept = join(home, 'npm-16.1-of-before');
    await rename(join(home, old.id), kept);
    const description = JSON.parse(await readFile(join(kept, 'distribution.json'), 'utf8'));
    await writeFile(
      join(kept, 'distribution.json'),
      JSON.stringify({ ...description, id: 'npm-16.1-of-before', version: '16.1' }),
    );
    const found = await ensureDistributions(directory);
    assert.deepEqual(
      (await readdir(home)).filter((name) => name.startsWith('.')),
      [],
    );
    assert.equal(newestDistribution(found, 16)?.id, old.id);
    assert.ok(found.some(({ id, root }) => id === 'npm-16.1-of-before' && root.startsWith(kept)));
  });
});

test('a data directory that other users cannot reach is refused with what to do', async (context) => {
  if (process.getuid?.() !== 0) return context.skip('without root nothing runs under another user');
  const closed = join(directory, 'closed');
  await mkdir(closed, { mode: 0o700 });
  await assert.rejects(ensureDistributions(join(closed, 'data')), /closed is closed to other users.*chmod o\+x/);
  await chmod(closed, 0o711);
});

test('without a directory there is nothing', async () => {
  assert.deepEqual(await listDistributions(join(directory, 'nowhere')), []);
});
