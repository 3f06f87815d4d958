import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const MODULES = fileURLToPath(new URL('../../../node_modules', import.meta.url));

/** The version of a package that `npm ci` has installed. */
export function packageVersion(name: string): string {
  return JSON.parse(readFileSync(join(MODULES, name, 'package.json'), 'utf8')).version;
}
