import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { printed, runProgram } from './installed-program.ts';
import { BOTH_HOSTS, type MatrixClient, type Place, tableName } from './matrix-client.ts';

const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

/** Debian's own: its packages of Python are for that one alone. */
const PYTHON = '/usr/bin/python3';
const JDBC = '/usr/share/java/postgresql-[0-9]*.jar';

const moduleVersion = (name: string): string | undefined =>
  printed(PYTHON, '-c', `import ${name}; print(${name}.__version__)`);

const succeeds =
  (words: (place: Place) => readonly [string, ...string[]]) =>
  async (place: Place): Promise<void> => {
    const [file, ...rest] = words(place);
    assert.match((await runProgram(file, ...rest)).stdout, /all well/);
  };

function pythonClient(name: string, module: string, script: string): MatrixClient {
  const version = moduleVersion(module);
  return {
    name,
    version: version ?? '',
    missing: version === undefined ? `${PYTHON} has no module ${module}` : undefined,
    hosts: BOTH_HOSTS,
    notes: '',
    cases: {
      'does what people do': succeeds((place) => [
        PYTHON,
        here(script),
        place.uri,
        place.ca_file,
        tableName(module, place),
      ]),
    },
  };
}

/** The driver takes an address without user and password. */
function jdbcWords({ uri }: Place): string[] {
  const { username, password, host, pathname, search } = new URL(uri);
  return [`jdbc:postgresql://${host}${pathname}${search}`, decodeURIComponent(username), decodeURIComponent(password)];
}

const [jar = ''] = globSync(JDBC);
const hasJava = jar !== '' && printed('which', 'javac') !== undefined;

const JDBC_CLIENT: MatrixClient = {
  name: 'JDBC',
  version: /(\d[\d.]+)\.jar$/.exec(jar)?.[1] ?? '',
  missing: hasJava ? undefined : `no ${JDBC}, or no Java compiler on the path`,
  hosts: BOTH_HOSTS,
  notes: '',
  cases: {
    'does what people do': succeeds((place) => [
      'java',
      '-cp',
      jar,
      here('TryJdbc.java'),
      ...jdbcWords(place),
      place.ca_file,
      tableName('jdbc', place),
    ]),
  },
};

/** Clients of other languages, where the machine has them; `.ci/run` installs those of Python. */
export const INSTALLED_CLIENTS: readonly MatrixClient[] = [
  pythonClient('psycopg', 'psycopg', 'try-psycopg.py'),
  pythonClient('asyncpg', 'asyncpg', 'try-asyncpg.py'),
  JDBC_CLIENT,
];
