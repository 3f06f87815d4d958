import Type from 'typebox';
import { CoppiceError } from '../../domain/errors.ts';
import type { PermissionName } from '../permissions.ts';
import { reply, route } from '../route.ts';
import { Id, inProject, ProjectParams } from '../schemas/fields.ts';

/**
 * Parts of the public API that are not served, where clients ask for them anyway and go on without when they are told
 * so in this way. All other routes that are not served are 404.
 */

const Nothing = Type.Object({});
const Database = inProject({ branch_id: Id, database_name: Type.String() });
const Branch = inProject({ branch_id: Id });

/** Something that can be switched on elsewhere: reading says that it is off, switching it on is refused. */
function switchedOff(feature: string, path: string, params: typeof Database | typeof Branch) {
  const off = (method: 'GET' | 'POST', permission: PermissionName, refuse: () => CoppiceError) =>
    route({
      method,
      path,
      permission,
      summary: `${feature}: not available on this server`,
      schema: { params, response: { 200: Nothing } },
      handle: async () => {
        throw refuse();
      },
    });
  return [
    off('GET', 'branch.read', () => new CoppiceError('not_enabled', { feature })),
    off('POST', 'branch.write', () => new CoppiceError('not_available', { feature })),
  ];
}

const vpcEndpoints = route({
  method: 'GET',
  path: '/projects/:project_id/vpc_endpoints',
  permission: 'project.read',
  summary: 'Lists VPC endpoints: there are none',
  schema: { params: ProjectParams, response: { 200: Type.Object({ endpoints: Type.Array(Nothing) }) } },
  handle: async () => reply(200, { endpoints: [] }),
});

export const unavailableRoutes = [
  ...switchedOff('Data API', '/projects/:project_id/branches/:branch_id/data-api/:database_name', Database),
  ...switchedOff('Auth', '/projects/:project_id/branches/:branch_id/auth', Branch),
  vpcEndpoints,
];
