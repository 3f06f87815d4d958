import { createHash } from 'node:crypto';
import { chmodSync, lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Writes files (path to content) below a directory. */
export function writeTree(directory: string, files: Readonly<Record<string, string | Buffer>>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(join(directory, dirname(path)), { recursive: true, mode: 0o700 });
    writeFileSync(join(directory, path), content, { mode: 0o600 });
  }
}

/** Every entry below a directory, as `mode content` by relative path: enough to tell two trees apart. */
export function readTree(directory: string): Record<string, string> {
  const paths = readdirSync(directory, { recursive: true, encoding: 'utf8' }).sort();
  return Object.fromEntries(paths.map((path) => [path, describeEntry(join(directory, path))]));
}

function describeEntry(path: string): string {
  const stats = lstatSync(path);
  const mode = (stats.mode & 0o7777).toString(8);
  if (!stats.isFile()) return `${mode} ${stats.isDirectory() ? 'directory' : 'other'}`;
  const digest = createHash('sha256').update(readFileSync(path)).digest('hex').slice(0, 16);
  return `${mode} ${stats.size} ${digest}`;
}

/** Files as small and as many as those of a few databases: 1,200 of them in 40 MB. */
export function writeManyFiles(directory: string): void {
  for (let database = 0; database < 4; database++) {
    const path = join(directory, 'base', String(database));
    mkdirSync(path, { recursive: true, mode: 0o700 });
    for (let file = 0; file < 300; file++) {
      const size = file % 10 === 0 ? 200_000 : 8192 * (file % 4);
      writeFileSync(join(path, String(file)), Buffer.alloc(size, `${database}/${file};`), { mode: 0o600 });
    }
  }
  chmodSync(join(directory, 'base'), 0o750);
}
