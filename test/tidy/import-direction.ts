import { isBuiltin } from 'node:module';
import type { Module } from './module.ts';

/** Which rooms of src/ a room may import, besides itself. The picture is in docs/architecture.md. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  domain: [],
  wire: ['domain'],
  postgres: ['domain'],
  store: ['domain'],
  drivers: ['domain'],
  watch: ['domain'],
  actions: ['store', 'domain'],
  api: ['actions', 'store', 'domain', 'watch'],
  engine: ['store', 'postgres', 'drivers', 'domain', 'watch'],
  gateway: ['wire', 'domain', 'watch'],
  cli: ['actions', 'store', 'postgres', 'drivers', 'domain', 'watch'],
  main: ['api', 'gateway', 'engine', 'cli', 'actions', 'store', 'postgres', 'drivers', 'wire', 'domain', 'watch'],
};

/** `src/drivers/storage/reflink/clone.ts` is of the kind `storage` and the driver `reflink`; shared files have no driver. */
function driverOf(path: string): { kind?: string; driver?: string } {
  const [, , kind, ...rest] = path.split('/');
  return rest.length > 1 ? { kind, driver: rest[0] } : { kind };
}

function driverProblem(from: string, to: string): string | undefined {
  const [source, target] = [driverOf(from), driverOf(to)];
  if (source.kind !== target.kind) return 'kinds of drivers do not know each other';
  if (target.driver !== undefined && source.driver !== target.driver) return 'a driver does not import another';
  return undefined;
}

function roomProblem(from: string, to: string): string | undefined {
  const [place, room = ''] = from.split('/');
  if (place === 'bin') return /^src\/main\//.test(to) ? undefined : 'bin/ imports src/main alone';
  if (!to.startsWith('src/')) return 'src/ does not import what lies outside it';
  const [, target = ''] = to.split('/');
  const allowed = MAY_IMPORT[room];
  if (allowed === undefined) return `src/${room} is not a room of the architecture`;
  if (room === 'drivers' && target === 'drivers') return driverProblem(from, to);
  if (room === target) return undefined;
  if (!allowed.includes(target)) return `${room} may import ${allowed.join(', ') || 'nothing'} alone`;
  if (target === 'drivers' && room !== 'main' && !/^src\/drivers\/\w+\/contract\.ts$/.test(to)) {
    return 'drivers are known by their contract.ts; only main chooses one';
  }
  return undefined;
}

/** Imports against the direction, types included: one sentence each. */
export function directionProblems(modules: readonly Module[]): string[] {
  return modules
    .filter(({ path }) => /^(src|bin)\//.test(path))
    .flatMap(({ path, imports }) =>
      imports.flatMap(({ specifier, path: target }) => {
        if (target === undefined) {
          const pure = path.startsWith('src/domain/');
          return pure && !isBuiltin(specifier) ? [`${path} imports ${specifier}: domain imports built-ins alone`] : [];
        }
        const problem = roomProblem(path, target);
        return problem ? [`${path} imports ${target}: ${problem}`] : [];
      }),
    );
}
