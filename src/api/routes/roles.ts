import Type from 'typebox';
import { findBranchOf } from '../../actions/access.ts';
import { createRole } from '../../actions/create-role.ts';
import { deleteRole } from '../../actions/delete-role.ts';
import { resetRolePassword } from '../../actions/reset-role-password.ts';
import { revealRolePassword } from '../../actions/reveal-role-password.ts';
import { CoppiceError } from '../../domain/errors.ts';
import { findRole, listRoles } from '../../store/roles.ts';
import type { OperationRow, RoleRow } from '../../store/schema.ts';
import { reply, route } from '../route.ts';
import { BranchParams } from '../schemas/branch.ts';
import { Role, RoleCreate, RoleOperations, RoleParams } from '../schemas/role.ts';
import { serializeOperation } from '../serializers/operation.ts';
import { serializeRole } from '../serializers/role.ts';

const answer = (done: { role: RoleRow; password?: string; operations: OperationRow[] }) => ({
  role: serializeRole(done.role, done.password),
  operations: done.operations.map(serializeOperation),
});

export const roleRoutes = [
  route({
    method: 'GET',
    path: '/projects/:project_id/branches/:branch_id/roles',
    permission: 'role.read',
    summary: 'Lists the roles of a branch',
    schema: { params: BranchParams, response: { 200: Type.Object({ roles: Type.Array(Role) }) } },
    handle: async ({ context, project, params }) => {
      const branch = await findBranchOf(context.store, project, params.branch_id);
      const rows = await listRoles(context.store, branch.id);
      return reply(200, { roles: rows.map((row) => serializeRole(row)) });
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:project_id/branches/:branch_id/roles',
    permission: 'role.write',
    summary: 'Creates a role; its password is in the answer',
    schema: { params: BranchParams, body: RoleCreate, response: { 201: RoleOperations } },
    handle: async ({ context, project, params, body }) =>
      reply(201, answer(await createRole(context, project, params.branch_id, body.role))),
  }),
  route({
    method: 'GET',
    path: '/projects/:project_id/branches/:branch_id/roles/:role_name',
    permission: 'role.read',
    summary: 'Shows a role',
    schema: { params: RoleParams, response: { 200: Type.Object({ role: Role }) } },
    handle: async ({ context, project, params }) => {
      const branch = await findBranchOf(context.store, project, params.branch_id);
      const role = await findRole(context.store, branch.id, params.role_name);
      if (!role) throw new CoppiceError('not_found', { noun: 'role' });
      return reply(200, { role: serializeRole(role) });
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:project_id/branches/:branch_id/roles/:role_name',
    permission: 'role.write',
    summary: 'Deletes a role that owns no database',
    schema: { params: RoleParams, response: { 200: RoleOperations, 204: Type.Null() } },
    handle: async ({ context, project, params }) => {
      const deleted = await deleteRole(context, project, params.branch_id, params.role_name);
      return deleted ? reply(200, answer(deleted)) : reply(204, null);
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:project_id/branches/:branch_id/roles/:role_name/reveal_password',
    permission: 'role.reveal_password',
    summary: "Shows a role's password",
    schema: { params: RoleParams, response: { 200: Type.Object({ password: Type.String() }) } },
    handle: async ({ context, project, params }) =>
      reply(200, { password: await revealRolePassword(context, project, params.branch_id, params.role_name) }),
  }),
  route({
    method: 'POST',
    path: '/projects/:project_id/branches/:branch_id/roles/:role_name/reset_password',
    permission: 'role.write',
    summary: 'Gives a role a new password, which is in the answer',
    schema: { params: RoleParams, response: { 200: RoleOperations } },
    handle: async ({ context, project, params }) =>
      reply(200, answer(await resetRolePassword(context, project, params.branch_id, params.role_name))),
  }),
];
