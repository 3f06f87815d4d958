import Type from 'typebox';
import { chooseOrganization } from '../../actions/access.ts';
import { personOf } from '../../actions/caller.ts';
import { createProject } from '../../actions/create-project.ts';
import { deleteProject } from '../../actions/delete-project.ts';
import { recoverableSince, recoverProject } from '../../actions/recover-project.ts';
import { updateProject } from '../../actions/update-project.ts';
import { LIMITS } from '../../domain/limits.ts';
import { listRecoverableProjects } from '../../store/deleted-projects.ts';
import { listProjects, listSharedProjects } from '../../store/projects.ts';
import { reply, route } from '../route.ts';
import { Id, ProjectParams } from '../schemas/fields.ts';
import { Operations } from '../schemas/operation.ts';
import {
  CreatedProject,
  Project,
  ProjectCreate,
  Projects,
  ProjectUpdate,
  RecoveredProject,
  SharedProjects,
} from '../schemas/project.ts';
import { serializeBranch } from '../serializers/branch.ts';
import { serializeConnection } from '../serializers/connection.ts';
import { serializeDatabase } from '../serializers/database.ts';
import { serializeEndpoint } from '../serializers/endpoint.ts';
import { serializeOperation } from '../serializers/operation.ts';
import { serializeProject, serializeProjectListItem } from '../serializers/project.ts';
import { serializeRole } from '../serializers/role.ts';

const Paging = {
  cursor: Type.Optional(Type.String({ maxLength: 60, description: 'Where the page before ended' })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMITS.projects_page_max })),
  search: Type.Optional(Type.String({ maxLength: LIMITS.name_characters, description: 'Part of a name or an id' })),
  timeout: Type.Optional(Type.Integer({ minimum: 100, maximum: 30_000, description: 'Nothing here is waited for' })),
};

const reads = [
  route({
    method: 'GET',
    path: '/projects',
    permission: 'project.list',
    summary: 'Lists projects, newest first',
    schema: {
      querystring: Type.Object({
        ...Paging,
        org_id: Type.Optional(Id),
        recoverable: Type.Optional(Type.Boolean({ description: 'Deleted ones only, such as can be brought back' })),
      }),
      response: { 200: Projects },
    },
    handle: async ({ context, caller, query }) => {
      const { org_id, recoverable, limit = LIMITS.projects_page_default, cursor, search } = query;
      const organization_id = chooseOrganization(caller, org_id);
      const page = { limit, cursor, search };
      const rows = recoverable
        ? await listRecoverableProjects(context.store, organization_id, page, recoverableSince(context.installation))
        : await listProjects(context.store, organization_id, page);
      const last = rows.at(-1);
      return reply(200, {
        projects: rows.map((row) => serializeProjectListItem(row, context.installation)),
        pagination: last && { cursor: last.id },
        applications: {},
        integrations: {},
      });
    },
  }),
  route({
    method: 'GET',
    path: '/projects/shared',
    permission: 'project.list_shared',
    summary: 'Lists projects of organizations that the caller is no member of, which are shared with the caller',
    schema: { querystring: Type.Object(Paging), response: { 200: SharedProjects } },
    handle: async ({ context, caller, query: { limit = LIMITS.projects_page_default, cursor, search } }) => {
      const rows = await listSharedProjects(context.store, personOf(caller).user, { limit, cursor, search });
      const last = rows.at(-1);
      return reply(200, {
        projects: rows.map((row) => serializeProjectListItem(row, context.installation)),
        pagination: last && { cursor: last.id },
      });
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:project_id',
    permission: 'project.read',
    summary: 'Shows a project',
    schema: { params: ProjectParams, response: { 200: Type.Object({ project: Project }) } },
    handle: async ({ context, project }) => reply(200, { project: serializeProject(project, context.installation) }),
  }),
];

const changes = [
  route({
    method: 'POST',
    path: '/projects',
    permission: 'project.create',
    summary: 'Creates a project with a branch, a role, a database and a compute that starts',
    schema: { body: ProjectCreate, response: { 201: CreatedProject } },
    handle: async ({ context, caller, body }) => {
      const { installation } = context;
      const { project, branch, endpoint, role, password, database, operations } = await createProject(
        context,
        caller,
        body.project,
      );
      const target = { endpoint_id: endpoint.id, role: role.name, password, database: database.name };
      return reply(201, {
        project: serializeProject(project, installation),
        connection_uris: [serializeConnection(target, installation)],
        roles: [serializeRole(role, password)],
        databases: [serializeDatabase(database)],
        operations: operations.map(serializeOperation),
        branch: serializeBranch(branch),
        endpoints: [serializeEndpoint(endpoint, installation)],
      });
    },
  }),
  route({
    method: 'PATCH',
    path: '/projects/:project_id',
    permission: 'project.update',
    summary: 'Changes a project; each settings key that is sent replaces what was there',
    schema: {
      params: ProjectParams,
      body: ProjectUpdate,
      response: { 200: Type.Object({ project: Project, operations: Operations }) },
    },
    handle: async ({ context, project, body }) => {
      const updated = await updateProject(context, project, body.project);
      return reply(200, {
        project: serializeProject(updated.project, context.installation),
        operations: updated.operations.map(serializeOperation),
      });
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:project_id',
    permission: 'project.delete',
    summary: 'Deletes a project with all that is in it: for good, or for a while where deleted projects are kept',
    schema: { params: ProjectParams, response: { 200: Type.Object({ project: Project }) } },
    handle: async ({ context, project }) =>
      reply(200, { project: serializeProject(await deleteProject(context, project), context.installation) }),
  }),
  route({
    method: 'POST',
    path: '/projects/:project_id/recover',
    permission: 'project.recover',
    summary: 'Brings a deleted project back with all that is in it; its computes sleep',
    schema: { params: ProjectParams, response: { 200: RecoveredProject } },
    handle: async ({ context, caller, params }) => {
      const { project, branches } = await recoverProject(context, caller, params.project_id);
      return reply(200, {
        project: serializeProject(project, context.installation),
        branches: branches.map(serializeBranch),
      });
    },
  }),
];

export const projectRoutes = [...reads, ...changes];
