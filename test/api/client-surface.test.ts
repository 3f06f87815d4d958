import assert from 'node:assert/strict';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { createApiClient } from '@neondatabase/api-client';
import { PUBLIC_OPERATIONS } from '../../src/api/public-operations.ts';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { CLIENT_CHANGES, type ClientWorld } from '../support/client-changes.ts';
import { argumentsOf, CLIENT_METHODS, type ClientMethod, callMethod, requestOf } from '../support/client-methods.ts';
import { type ContractWorld, createContractWorld } from '../support/contract-world.ts';
import type { PublicRequest } from '../support/openapi-contract.ts';
import { finishOperations } from '../support/project.ts';
import { seededRandom } from '../support/random.ts';
import { type Json, valueFor } from '../support/schema-values.ts';

/**
 * Every method of the public API client, unmodified, over a real connection: what is served does its work, what is not is
 * refused as clients expect. What requests and answers look like is held to the public file by contract.test.ts.
 */

const UNKNOWN_UUID = '00000000-0000-4000-8000-000000000000';
const SEED = 2026;
const HOUR_MS = 3_600_000;
/** Only the branch that others come from has these. */
const OF_MAIN: readonly ClientMethod[] = ['getSnapshotSchedule'];
/** Only anonymized branches have these. */
const OF_MASKED: readonly ClientMethod[] = ['getMaskingRules', 'getAnonymizedBranchStatus'];
/** They look into a database, which test/clients/schema.test.ts does. */
const NEED_A_COMPUTE: readonly ClientMethod[] = [
  'getProjectAdvisorSecurityIssues',
  'getProjectBranchSchema',
  'getProjectBranchSchemaComparison',
];

const metered = ({ path }: ContractWorld, other: string) => ({
  from: new Date(Date.now() - 2 * HOUR_MS).toISOString(),
  to: new Date().toISOString(),
  granularity: 'hourly',
  project_ids: [path.project_id!, other],
  org_id: path.org_id!,
});

/** What else is asked for where the client has a say in how it is written: lists, dates, signs that mean something in a URL. */
const queries = (
  world: ContractWorld,
  other: string,
): { readonly [Method in ClientMethod]?: Record<string, Json> } => ({
  listProjects: { org_id: world.path.org_id!, search: world.path.project_id!, limit: 5 },
  listSharedProjects: { search: 'a & b', limit: 1 },
  listProjectOperations: { limit: 2, cursor: new Date().toISOString() },
  listProjectBranches: { search: 'child', sort_by: 'name', sort_order: 'asc', limit: 1 },
  countProjectBranches: { search: 'child' },
  getOrganizationMembers: { sort_by: 'email', sort_order: 'asc', limit: 1 },
  getActiveRegions: { org_id: world.path.org_id! },
  getConnectionUri: { database_name: 'spare', role_name: 'spare', branch_id: world.path.branch_id!, pooled: true },
  getConsumptionHistoryPerProject: { ...metered(world, other), limit: 1 },
  getConsumptionHistoryPerProjectV2: { ...metered(world, other), metrics: ['compute_unit_seconds'] },
  getConsumptionHistoryPerBranchV2: {
    ...metered(world, other),
    metrics: ['compute_unit_seconds', 'root_branch_bytes_month'],
  },
});

/** Without what changes between two readings. */
const lasting = (body: unknown): unknown =>
  JSON.parse(
    JSON.stringify(body ?? null, (name, value) =>
      ['request_id', 'last_used_at', 'last_used_from_addr'].includes(name) ? undefined : value,
    ),
  );

const METHODS = await Promise.all(CLIENT_METHODS.map(async (method) => ({ method, request: await requestOf(method) })));
const isServed = ({ name }: PublicRequest) => ['served', 'degraded'].includes(PUBLIC_OPERATIONS[name]!.answer);

describe('the public API client, every method of it', { timeout: 240_000 }, () => {
  let api: TestApi;
  let quiet: ContractWorld;
  let other: ContractWorld;
  let baseURL: string;
  before(async () => {
    api = await startTestApi({
      installation: { keep_deleted_projects_seconds: 3600, keep_deleted_branches_seconds: 3600 },
    });
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    baseURL = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}/api/v2`;
    quiet = await createContractWorld(api);
    other = await createContractWorld(api);
  });
  after(() => api?.close());

  const clientOf = (apiKey: string) => createApiClient({ apiKey, baseURL });

  const worldOf = async (): Promise<ClientWorld> => {
    const world = await createContractWorld(api);
    const ids = world.path as ContractWorld['path'] &
      Pick<ClientWorld, 'project_id' | 'branch_id' | 'endpoint_id' | 'snapshot_id' | 'org_id' | 'member_id'>;
    return {
      ...ids,
      api,
      client: clientOf(api.key),
      clientOf,
      main_id: world.main_id,
      mask: world.mask,
      role: String(world.known.role_name),
      settle: () => finishOperations(api, ids.project_id),
    };
  };

  /** The same request through the client and without it. */
  const sendBoth = async (method: ClientMethod, request: PublicRequest) => {
    const values: Record<string, string> = {
      ...quiet.path,
      ...(OF_MAIN.includes(method) && { branch_id: quiet.main_id }),
      ...(OF_MASKED.includes(method) && { branch_id: await quiet.mask() }),
    };
    const pathValue = (name: string) => values[name === 'source_org_id' ? 'org_id' : name] ?? UNKNOWN_UUID;
    const least = { random: seededRandom(SEED), known: quiet.known, optional: 0 };
    const query: Record<string, Json> = {
      ...Object.fromEntries(
        request.query
          .filter(({ required }) => required)
          .map(({ name, schema }) => [name, valueFor(schema, least, name)]),
      ),
      ...queries(quiet, other.path.project_id!)[method],
    };
    const body = request.body && valueFor(request.body.schema, least);
    const through = await callMethod(clientOf(api.key), method, argumentsOf(method, { path: pathValue, query, body }));
    const search = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]));
    const path = request.path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(pathValue(name)));
    const without = await api.call(request.method, search.size ? `${path}?${search}` : path, { body });
    return { through, without };
  };

  it('has a method for each operation of the public file', () => {
    assert.deepEqual(METHODS.map(({ request }) => request.name).sort(), Object.keys(PUBLIC_OPERATIONS).sort());
  });

  for (const { method, request } of METHODS) {
    const served = isServed(request);
    const change = CLIENT_CHANGES[method];
    if (served && request.method !== 'GET') {
      it(`changes what it should with ${method}`, async () => {
        assert.ok(change, `say in test/support/client-changes.ts what ${method} is to change`);
        await change(await worldOf());
      });
      continue;
    }
    it(served ? `reads with ${method}` : `is told by ${method} that it is not there`, async () => {
      const { through, without } = await sendBoth(method, request);
      assert.deepEqual([through.status, lasting(through.data)], [without.status, lasting(without.body)]);
      if (served) {
        if (!NEED_A_COMPUTE.includes(method)) assert.equal(through.status, 200, through.data.message);
        return;
      }
      assert.ok([404, 501].includes(through.status), `${through.status}`);
      assert.match(through.data.message, /is not enabled|is not available on this server|does not exist/);
    });
  }
});
