import Type from 'typebox';
import { personOf } from '../../actions/caller.ts';
import { offerProject } from '../../actions/offer-project.ts';
import { takeProject } from '../../actions/take-project.ts';
import { transferProjects } from '../../actions/transfer-projects.ts';
import { reply, route } from '../route.ts';
import { inProject, OrganizationParams, ProjectParams, Uuid } from '../schemas/fields.ts';
import { ProjectsTransfer, TransferAccept, TransferRequest, TransferRequestCreate } from '../schemas/transfer.ts';
import { serializeTransferRequest } from '../serializers/transfer.ts';

export const transferRoutes = [
  route({
    method: 'POST',
    path: '/projects/:project_id/transfer_requests',
    permission: 'project.offer',
    summary: 'Offers a project to whoever is given the id of the request, until it expires',
    schema: { params: ProjectParams, body: TransferRequestCreate, response: { 201: TransferRequest } },
    handle: async ({ context, caller, project, body }) =>
      reply(201, serializeTransferRequest(await offerProject(context, caller, project, body?.ttl_seconds))),
  }),
  route({
    method: 'PUT',
    path: '/projects/:project_id/transfer_requests/:request_id',
    permission: 'project.take',
    summary: 'Takes a project that was offered into an organization of the caller',
    schema: { params: inProject({ request_id: Uuid }), body: TransferAccept, response: { 204: Type.Null() } },
    handle: async ({ context, caller, params, body }) => {
      await takeProject(context, caller, { ...params, org_id: body?.org_id });
      return reply(204, null);
    },
  }),
  route({
    method: 'POST',
    path: '/organizations/:org_id/projects/transfer',
    permission: 'organization.transfer_projects',
    summary: 'Gives projects of an organization to another one of the caller, all or none',
    schema: { params: OrganizationParams, body: ProjectsTransfer, response: { 200: Type.Object({}) } },
    handle: async ({ context, caller, organization, body: { project_ids, destination_org_id } }) => {
      const transfer = { project_ids, from: organization.id, to: destination_org_id };
      await transferProjects(context, personOf(caller), transfer);
      return reply(200, {});
    },
  }),
  route({
    method: 'POST',
    path: '/users/me/projects/transfer',
    permission: 'user.transfer_projects',
    summary: 'Gives projects, of whichever organizations the caller is an admin of, to another one of the caller',
    schema: { body: ProjectsTransfer, response: { 200: Type.Object({}) } },
    handle: async ({ context, caller, body: { project_ids, destination_org_id } }) => {
      await transferProjects(context, personOf(caller), { project_ids, to: destination_org_id });
      return reply(200, {});
    },
  }),
];
