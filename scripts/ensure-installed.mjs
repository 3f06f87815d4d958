#!/usr/bin/env node
/**
 * Runs before `npm start`, `npm test` and `npm run bench`, under whatever Node npm was started with (20 or newer):
 * installs what the lockfile names when node_modules does not hold it. Afterwards npm's own script finds the pinned
 * Node in node_modules/.bin. Plain JavaScript on built-ins alone, since nothing else is there yet.
 */
import { spawnSync } from 'node:child_process';
import { accessSync, constants, readFileSync } from 'node:fs';
import { delimiter, dirname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const OLDEST_RUNTIME_MAJOR = 24;
const root = dirname(dirname(fileURLToPath(import.meta.url)));

function readJson(path) {
  try {
    return JSON.parse(readFileSync(join(root, path), 'utf8'));
  } catch (error) {
    if (error.code === 'ENOENT' || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Packages that the lockfile wants and node_modules lacks or holds in another version; the lockfile's own order. */
function missingPackages() {
  const wanted = readJson('package-lock.json')?.packages ?? {};
  // npm writes this file last, so that an install that was cut short has none.
  const present = readJson(join('node_modules', '.package-lock.json'))?.packages;
  if (!present) return ['node_modules'];
  const missing = [];
  for (const [path, entry] of Object.entries(wanted)) {
    if (path === '' || entry.link) continue;
    const found = present[path];
    // An optional package may be absent: it belongs to another platform.
    if (found ? found.version !== entry.version : !entry.optional) missing.push(path);
  }
  return missing;
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

const pinnedNode = join(root, 'node_modules', 'node', 'bin', process.platform === 'win32' ? 'node.exe' : 'node');

/** A Node outside node_modules, because the install replaces everything inside. */
function outsideNode() {
  const inside = join(root, 'node_modules') + sep;
  for (const directory of (process.env.PATH ?? '').split(delimiter)) {
    const candidate = join(directory, process.platform === 'win32' ? 'node.exe' : 'node');
    if (directory && !candidate.startsWith(inside) && isExecutable(candidate)) return candidate;
  }
  return process.execPath;
}

function install() {
  const words = ['ci', '--no-audit', '--no-fund', '--loglevel=error'];
  const npm = process.env.npm_execpath;
  const [command, before] = npm?.endsWith('.js') ? [outsideNode(), [npm]] : ['npm', []];
  const { status, error } = spawnSync(command, [...before, ...words], {
    cwd: root,
    // stdout belongs to the script that follows.
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32' && command === 'npm',
  });
  if (error) return `npm could not be started: ${error.message}. Install npm, then run "npm ci".`;
  if (status !== 0) return `"npm ci" ended with status ${status}; what it said is above.`;
  return undefined;
}

/** Why the scripts that follow could not run although the packages are there; undefined when they can. */
function runtimeProblem() {
  if (isExecutable(pinnedNode)) return undefined;
  const major = Number(process.versions.node.split('.')[0]);
  if (major >= OLDEST_RUNTIME_MAJOR) return undefined;
  return (
    `Node ${OLDEST_RUNTIME_MAJOR} or newer is needed and this is ${process.versions.node}. The package "node" brings it, but its install ` +
    'script did not run: npm is told to ignore scripts, or to ask first. Run "npm ci --ignore-scripts=false", or ' +
    `install Node ${OLDEST_RUNTIME_MAJOR} yourself.`
  );
}

function main() {
  const missing = missingPackages();
  if (missing.length > 0) {
    const first = missing[0] === 'node_modules' ? 'nothing is installed yet' : `${missing.length} packages differ`;
    console.error(`Installing packages from package-lock.json (${first}); this takes about half a minute.`);
    const problem = install();
    if (problem) return problem;
  }
  return runtimeProblem();
}

const problem = main();
if (problem) {
  console.error(problem);
  process.exitCode = 1;
}
