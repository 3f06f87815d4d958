import { constants } from 'node:fs';
import {
  chmod,
  copyFile,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  rename,
  stat,
  symlink,
  unlink,
} from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

/** Not needed to run a server, and a third of a distribution's size. */
const LEFT_OUT = /^(pkgconfig|pgxs|bitcode|.*\.a|libecpg.*|libpgtypes.*)$/;

/**
 * Copies a directory, sharing blocks where the file system can, and makes each file durable. Everything is readable
 * and traversable by everyone afterwards, since servers run under users of their own.
 */
export async function copyTree(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true, mode: 0o755 });
  for (const entry of await readdir(from, { withFileTypes: true })) {
    if (LEFT_OUT.test(entry.name)) continue;
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) await copyTree(source, target);
    else if (entry.isSymbolicLink()) await symlink(await readlink(source), target);
    else if (entry.isFile()) await copyOneFile(source, target);
  }
  await chmod(to, 0o755);
  await syncPath(to);
}

async function copyOneFile(source: string, target: string): Promise<void> {
  await copyFile(source, target, constants.COPYFILE_FICLONE);
  await chmod(target, (await stat(source)).mode & 0o111 ? 0o755 : 0o644);
  await syncPath(target);
}

/** Makes the links that npm leaves out of a package; those that are there stay. */
export async function hydrateLinks(root: string, links: readonly { path: string; text: string }[]): Promise<void> {
  for (const { path, text } of links.filter((link) => !LEFT_OUT.test(basename(link.path)))) {
    await symlink(text, join(root, path)).catch((error: NodeJS.ErrnoException) => {
      // EEXIST: the package's own install script ran. ENOENT: the link belongs to a directory that is not copied.
      if (error.code !== 'EEXIST' && error.code !== 'ENOENT') throw error;
    });
  }
}

/** Makes a directory hold exactly these texts. Each file changes at once, so that a server never reads half of one. */
export async function syncTexts(directory: string, texts: ReadonlyMap<string, string>): Promise<void> {
  for (const [name, text] of texts) {
    const path = join(directory, name);
    const present = await readFile(path, 'utf8').catch(() => undefined);
    if (present !== text) await writeDurably(path, text);
  }
  for (const name of await readdir(directory)) {
    if (!texts.has(name)) await unlink(join(directory, name));
  }
  await syncPath(directory);
}

/** Writes a whole file, readable by everyone, or leaves the old one. */
export async function writeDurably(path: string, text: string): Promise<void> {
  const unfinished = join(dirname(path), `.${basename(path)}.${process.pid}`);
  const file = await open(unfinished, 'w', 0o644);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(unfinished, path);
}

/** fsync of a file or a directory. */
export async function syncPath(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
