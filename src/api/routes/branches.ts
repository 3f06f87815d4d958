import Type from 'typebox';
import { findBranchOf } from '../../actions/access.ts';
import { renewLease } from '../../actions/branch-lease.ts';
import type { InstallationFacts } from '../../actions/context.ts';
import { createAnonymizedBranch } from '../../actions/create-anonymized-branch.ts';
import { createBranch, type CreatedBranch as NewBranch } from '../../actions/create-branch.ts';
import { deleteBranch } from '../../actions/delete-branch.ts';
import { branchesRecoverableSince, recoverBranch } from '../../actions/recover-branch.ts';
import { restoreBranch } from '../../actions/restore-branch.ts';
import { setDefaultBranch } from '../../actions/set-default-branch.ts';
import { updateBranch } from '../../actions/update-branch.ts';
import { LIMITS } from '../../domain/limits.ts';
import { countBranches, listBranches } from '../../store/branches.ts';
import { findEndpointsOfBranch } from '../../store/endpoints.ts';
import { ANY_KEY, pageOf, parseListCursor, sortColumn, TIME_KEY } from '../list-cursor.ts';
import { reply, route } from '../route.ts';
import {
  AnonymizedBranchCreate,
  Branch,
  BranchAnnotation,
  BranchCreate,
  Branches,
  BranchOperations,
  BranchParams,
  BranchRestore,
  BranchUpdate,
  CreatedBranch,
  LeaseRenewal,
  RecoveredBranch,
} from '../schemas/branch.ts';
import { Endpoint } from '../schemas/endpoint.ts';
import { ProjectParams } from '../schemas/fields.ts';
import { serializeBranch, serializeBranchAnnotation, serializeListedBranch } from '../serializers/branch.ts';
import { serializeConnection } from '../serializers/connection.ts';
import { serializeDatabase } from '../serializers/database.ts';
import { serializeEndpoint } from '../serializers/endpoint.ts';
import { serializeOperation } from '../serializers/operation.ts';
import { serializeRole } from '../serializers/role.ts';

const Search = Type.Optional(
  Type.String({ maxLength: LIMITS.name_characters, description: 'Part of a name or an id' }),
);

const BRANCH_ORDER = {
  columns: { name: ANY_KEY, created_at: TIME_KEY, updated_at: TIME_KEY },
  id: ANY_KEY,
};

const serializeCreated = ({ connection, ...created }: NewBranch, installation: InstallationFacts) => ({
  branch: serializeBranch(created.branch),
  endpoints: created.endpoints.map((row) => serializeEndpoint(row, installation)),
  operations: created.operations.map(serializeOperation),
  roles: created.roles.map((row) => serializeRole(row)),
  databases: created.databases.map(serializeDatabase),
  connection_uris: connection ? [serializeConnection(connection, installation)] : undefined,
});

const changes = [
  route({
    method: 'POST',
    path: '/projects/:project_id/branches',
    permission: 'branch.write',
    summary: 'Creates a branch of another one, with computes if asked for',
    schema: { params: ProjectParams, body: BranchCreate, response: { 200: CreatedBranch, 201: CreatedBranch } },
    handle: async ({ context, caller, project, body }) => {
      const created = await createBranch(context, caller, project, body ?? {});
      return reply(created.created ? 201 : 200, serializeCreated(created, context.installation));
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:project_id/branch_anonymized',
    permission: 'branch.write',
    summary: 'Creates a branch that nobody can use before its data is masked',
    schema: { params: ProjectParams, body: AnonymizedBranchCreate, response: { 201: CreatedBranch } },
    handle: async ({ context, caller, project, body }) =>
      reply(201, serializeCreated(await createAnonymizedBranch(context, caller, project, body), context.installation)),
  }),
  route({
    method: 'PATCH',
    path: '/projects/:project_id/branches/:branch_id',
    permission: 'branch.write',
    summary: 'Renames or protects a branch, or changes when it expires',
    schema: { params: BranchParams, body: BranchUpdate, response: { 200: BranchOperations } },
    handle: async ({ context, project, params, body }) => {
      const { branch, operations } = await updateBranch(context, project, params.branch_id, body.branch);
      return reply(200, { branch: serializeBranch(branch), operations: operations.map(serializeOperation) });
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:project_id/branches/:branch_id/renew_lease',
    permission: 'branch.write',
    summary: 'Lets a branch that expires live as long again, counted from now',
    schema: { params: BranchParams, body: LeaseRenewal, response: { 200: BranchOperations } },
    handle: async ({ context, project, params, body }) => {
      const branch = await renewLease(context, project, params.branch_id, body?.lease_ttl_seconds);
      return reply(200, { branch: serializeBranch(branch), operations: [] });
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:project_id/branches/:branch_id/set_as_default',
    permission: 'branch.write',
    summary: "Makes a branch the project's default one",
    schema: { params: BranchParams, response: { 200: BranchOperations } },
    handle: async ({ context, project, params }) => {
      const { branch, operations } = await setDefaultBranch(context, project, params.branch_id);
      return reply(200, { branch: serializeBranch(branch), operations: operations.map(serializeOperation) });
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:project_id/branches/:branch_id/restore',
    permission: 'branch.write',
    summary: 'Makes a branch what another one is, or what one was at a time; its endpoints stay',
    schema: { params: BranchParams, body: BranchRestore, response: { 200: BranchOperations } },
    handle: async ({ context, caller, project, params, body }) => {
      const { branch, operations } = await restoreBranch(context, caller, project, params.branch_id, body);
      return reply(200, { branch: serializeBranch(branch), operations: operations.map(serializeOperation) });
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:project_id/branches/:branch_id',
    permission: 'branch.write',
    summary: 'Deletes a branch with its computes: for good, or for a while where deleted branches are kept',
    schema: {
      params: BranchParams,
      querystring: Type.Object({
        hard_delete: Type.Optional(Type.Boolean({ description: 'For good, also where it was deleted and is kept' })),
      }),
      response: { 200: BranchOperations, 204: Type.Null() },
    },
    handle: async ({ context, project, params, query }) => {
      const deleted = await deleteBranch(context, project, params.branch_id, { hard: query.hard_delete ?? false });
      if (!deleted) return reply(204, null);
      return reply(200, {
        branch: serializeBranch(deleted.branch),
        operations: deleted.operations.map(serializeOperation),
      });
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:project_id/branches/:branch_id/recover',
    permission: 'branch.write',
    summary: 'Brings a deleted branch back with its endpoints; its computes sleep',
    schema: { params: BranchParams, response: { 200: RecoveredBranch } },
    handle: async ({ context, project, params }) => {
      const { branch, endpoints } = await recoverBranch(context, project, params.branch_id);
      return reply(200, {
        branch: serializeBranch(branch),
        endpoints: endpoints.map((row) => serializeEndpoint(row, context.installation)),
      });
    },
  }),
];

const reads = [
  route({
    method: 'GET',
    path: '/projects/:project_id/branches',
    permission: 'branch.read',
    summary: 'Lists branches, all or a page',
    schema: {
      params: ProjectParams,
      querystring: Type.Object({
        search: Search,
        sort_by: Type.Optional(Type.Enum(['name', 'created_at', 'updated_at'])),
        sort_order: Type.Optional(Type.Enum(['asc', 'desc'])),
        cursor: Type.Optional(Type.String({ description: 'Where the page before ended' })),
        limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMITS.branches_page_max })),
        include_deleted: Type.Optional(
          Type.Boolean({ description: 'Those as well that are deleted and can come back' }),
        ),
      }),
      response: { 200: Branches },
    },
    handle: async ({ context, project, query }) => {
      const after = query.cursor ? parseListCursor(query.cursor, BRANCH_ORDER) : undefined;
      const sort_by = sortColumn(query.sort_by, after, 'updated_at');
      const { search, limit, sort_order = 'desc' } = query;
      // One more than asked for tells whether there is a next page.
      const rows = await listBranches(context.store, project.id, {
        search,
        sort_by,
        sort_order,
        after,
        limit: limit && limit + 1,
        deleted_since: query.include_deleted ? branchesRecoverableSince(context.installation) : undefined,
      });
      const { page, pagination } = pageOf(rows, limit, { sort_by, sort_order });
      const annotated = page.filter((row) => Object.keys(row.annotations).length > 0);
      return reply(200, {
        branches: page.map((row) => serializeListedBranch(row, context.installation)),
        annotations: Object.fromEntries(annotated.map((row) => [row.id, serializeBranchAnnotation(row)])),
        pagination,
      });
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:project_id/branches/count',
    permission: 'branch.read',
    summary: 'Counts branches',
    schema: {
      params: ProjectParams,
      querystring: Type.Object({ search: Search }),
      response: { 200: Type.Object({ count: Type.Integer() }) },
    },
    handle: async ({ context, project, query }) =>
      reply(200, { count: await countBranches(context.store, project.id, query.search) }),
  }),
  route({
    method: 'GET',
    path: '/projects/:project_id/branches/:branch_id',
    permission: 'branch.read',
    summary: 'Shows a branch',
    schema: {
      params: BranchParams,
      response: { 200: Type.Object({ branch: Branch, annotation: BranchAnnotation }) },
    },
    handle: async ({ context, project, params }) => {
      const branch = await findBranchOf(context.store, project, params.branch_id);
      return reply(200, { branch: serializeBranch(branch), annotation: serializeBranchAnnotation(branch) });
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:project_id/branches/:branch_id/endpoints',
    permission: 'endpoint.read',
    summary: 'Lists the endpoints of a branch',
    schema: { params: BranchParams, response: { 200: Type.Object({ endpoints: Type.Array(Endpoint) }) } },
    handle: async ({ context, project, params }) => {
      const branch = await findBranchOf(context.store, project, params.branch_id);
      const rows = (await findEndpointsOfBranch(context.store, branch.id)) ?? [];
      return reply(200, { endpoints: rows.map((row) => serializeEndpoint(row, context.installation)) });
    },
  }),
];

export const branchRoutes = [...reads, ...changes];
