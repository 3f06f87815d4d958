import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { removeDataDirectory, startCoppice, type TestCoppice } from '../../support/coppice.ts';
import { DRIZZLE } from './drizzle-client.ts';
import { INSTALLED_CLIENTS } from './installed-clients.ts';
import { KNEX } from './knex-client.ts';
import { KYSELY } from './kysely-client.ts';
import type { MatrixClient, Place } from './matrix-client.ts';
import { PG_CLIENTS } from './pg-clients.ts';
import { POSTGRES_JS } from './postgres-js.ts';
import { PRISMA } from './prisma-client.ts';
import { PSQL_CLIENTS } from './psql-client.ts';
import { SERVERLESS } from './serverless.ts';
import { TYPEORM } from './typeorm-client.ts';

const CLIENTS: readonly MatrixClient[] = [
  ...PG_CLIENTS,
  POSTGRES_JS,
  ...SERVERLESS,
  DRIZZLE,
  ...PRISMA,
  KYSELY,
  KNEX,
  TYPEORM,
  ...PSQL_CLIENTS,
  ...INSTALLED_CLIENTS,
];

/** Clients that know nothing of Coppice, on connection strings as the API gives them. */
describe('compatibility of clients', { timeout: 480_000 }, () => {
  let coppice: TestCoppice;
  let directory: string;
  const places = new Map<Place['host'], Place>();

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'clients-'));
    coppice = await startCoppice();
    const { project, connection_uris } = await coppice.must('POST', '/projects', { project: { name: 'matrix' } });
    await coppice.settled(project.id);
    const query = new URLSearchParams({ database_name: 'neondb', role_name: 'neondb_owner', pooled: 'true' });
    const pooled = await coppice.must('GET', `/projects/${project.id}/connection_uri?${query}`);
    const ca_file = join(coppice.data_directory, 'certificates/ca.crt');
    const rest = { ca: await readFile(ca_file, 'utf8'), ca_file, api_port: coppice.api_port, directory };
    places.set('direct', { host: 'direct', uri: connection_uris[0].connection_uri, ...rest });
    places.set('pooled', { host: 'pooled', uri: pooled.uri, ...rest });
  });
  after(async () => {
    await coppice?.stop();
    if (coppice) await removeDataDirectory(coppice.data_directory);
    if (directory) await rm(directory, { recursive: true, force: true });
  });

  it('is written down', async () => {
    const document = await readFile(new URL('../../../docs/compatibility.md', import.meta.url), 'utf8');
    // What the system brings has the version of the system.
    const brought = new Set([...PSQL_CLIENTS, ...INSTALLED_CLIENTS]);
    const rows = CLIENTS.map((client) => {
      const version = brought.has(client) ? 'of Debian 12' : client.version;
      const hosts = (['direct', 'pooled'] as const).map((host) => (client.hosts.includes(host) ? 'yes' : ''));
      return `| ${[client.name, version, ...hosts, client.notes].join(' | ')} |`;
    });
    assert.ok(document.includes(rows.join('\n')), `docs/compatibility.md lacks:\n${rows.join('\n')}`);
  });

  for (const { name, hosts, missing, cases } of CLIENTS) {
    if (missing !== undefined) {
      it(`${name} is not tried here`, (t) => t.diagnostic(missing));
      continue;
    }
    for (const host of hosts) {
      for (const [what, run] of Object.entries(cases)) {
        it(`${name} ${what}, ${host}`, async () => {
          const place = places.get(host);
          assert.ok(place);
          await run(place);
        });
      }
    }
  }
});
