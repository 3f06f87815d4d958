import Type, { type TSchema } from 'typebox';
import { CoppiceError } from '../../domain/errors.ts';
import type { PermissionName } from '../permissions.ts';
import { PUBLIC_OPERATIONS, type PublicOperation } from '../public-operations.ts';
import { type Route, reply, route } from '../route.ts';
import { Id, ProjectParams } from '../schemas/fields.ts';

/**
 * Parts of the public API that are not served, where clients ask for them anyway and go on without when they are told
 * so in this way. What the table calls `no_route` is 404 without being named here.
 */

const Nothing = Type.Object({});
const PATH_IDS = new Set(['project_id', 'branch_id', 'org_id', 'region_id']);

/** The operation's path as the router writes it, and a schema for what stands in it. */
function readPath(path: string): { path: string; params: TSchema } {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]!);
  const params = Object.fromEntries(names.map((name) => [name, PATH_IDS.has(name) ? Id : Type.String()]));
  return { path: path.replace(/\{(\w+)\}/g, ':$1'), params: Type.Object(params) };
}

/** Whoever may not see what the path names is told nothing else here than elsewhere. */
function permissionOf(method: string, path: string): PermissionName {
  const reads = method === 'GET';
  if (path.startsWith('/organizations/')) return reads ? 'organization.read' : 'organization.update';
  if (path.includes('/branches/')) return reads ? 'branch.read' : 'branch.write';
  if (path.startsWith('/projects/')) return reads ? 'project.read' : 'project.update';
  return 'project.list';
}

function refusal(operation: string, { answer, feature }: PublicOperation & { feature: string }): Route {
  const [method, place] = operation.split(' ') as [Route['method'], string];
  const { path, params } = readPath(place);
  return route({
    method,
    path,
    permission: permissionOf(method, place),
    summary: `${answer === 'not_enabled' ? 'Not enabled' : 'Not available on this server'}: ${feature}`,
    schema: { params, response: { 200: Nothing } },
    handle: async () => {
      throw new CoppiceError(answer === 'not_enabled' ? 'not_enabled' : 'not_available', { feature });
    },
  });
}

const refusals = Object.entries(PUBLIC_OPERATIONS).flatMap(([operation, row]) =>
  'feature' in row ? [refusal(operation, row)] : [],
);

const NoEndpoints = { 200: Type.Object({ endpoints: Type.Array(Nothing) }) };
const OrganizationParams = Type.Object({ org_id: Id });

const vpcEndpoints = [
  route({
    method: 'GET',
    path: '/projects/:project_id/vpc_endpoints',
    permission: 'project.read',
    summary: 'Lists VPC endpoints: there are none',
    schema: { params: ProjectParams, response: NoEndpoints },
    handle: async () => reply(200, { endpoints: [] }),
  }),
  route({
    method: 'GET',
    path: '/organizations/:org_id/vpc/vpc_endpoints',
    permission: 'organization.read',
    summary: 'Lists VPC endpoints: there are none',
    schema: { params: OrganizationParams, response: NoEndpoints },
    handle: async () => reply(200, { endpoints: [] }),
  }),
  route({
    method: 'GET',
    path: '/organizations/:org_id/vpc/region/:region_id/vpc_endpoints',
    permission: 'organization.read',
    summary: 'Lists VPC endpoints of a region: there are none',
    schema: { params: Type.Object({ org_id: Id, region_id: Id }), response: NoEndpoints },
    handle: async () => reply(200, { endpoints: [] }),
  }),
];

const spendingLimit = [
  route({
    method: 'GET',
    path: '/organizations/:org_id/billing/spending_limit',
    permission: 'organization.read',
    summary: 'Shows the spending limit: there is none, since nothing costs money',
    schema: {
      params: OrganizationParams,
      response: { 200: Type.Object({ spending_limit_cents: Type.Null() }) },
    },
    handle: async () => reply(200, { spending_limit_cents: null }),
  }),
  route({
    method: 'DELETE',
    path: '/organizations/:org_id/billing/spending_limit',
    permission: 'organization.update',
    summary: 'Removes the spending limit, of which there is none',
    schema: { params: OrganizationParams, response: { 200: Nothing } },
    handle: async () => reply(200, {}),
  }),
];

export const unavailableRoutes: readonly Route[] = [...refusals, ...vpcEndpoints, ...spendingLimit];
