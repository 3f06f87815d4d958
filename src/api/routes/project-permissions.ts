import { shareProject } from '../../actions/share-project.ts';
import { unshareProject } from '../../actions/unshare-project.ts';
import { listProjectPermissions } from '../../store/project-permissions.ts';
import { reply, route } from '../route.ts';
import { inProject, ProjectParams, Uuid } from '../schemas/fields.ts';
import { ProjectPermission, ProjectPermissionCreate, ProjectPermissions } from '../schemas/project-permission.ts';
import { serializeProjectPermission } from '../serializers/project-permission.ts';

export const projectPermissionRoutes = [
  route({
    method: 'GET',
    path: '/projects/:project_id/permissions',
    permission: 'project.share',
    summary: 'Lists the people outside of its organization who may use a project',
    schema: { params: ProjectParams, response: { 200: ProjectPermissions } },
    handle: async ({ context, project }) => {
      const rows = await listProjectPermissions(context.store, project.id);
      return reply(200, { project_permissions: rows.map(serializeProjectPermission) });
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:project_id/permissions',
    permission: 'project.share',
    summary: 'Lets the person with an e-mail address use a project',
    schema: { params: ProjectParams, body: ProjectPermissionCreate, response: { 200: ProjectPermission } },
    handle: async ({ context, caller, project, body }) =>
      reply(200, serializeProjectPermission(await shareProject(context, caller, project, body.email))),
  }),
  route({
    method: 'DELETE',
    path: '/projects/:project_id/permissions/:permission_id',
    permission: 'project.share',
    summary: 'Ends such a permission',
    schema: { params: inProject({ permission_id: Uuid }), response: { 200: ProjectPermission } },
    handle: async ({ context, project, params }) =>
      reply(200, serializeProjectPermission(await unshareProject(context, project, params.permission_id))),
  }),
];
