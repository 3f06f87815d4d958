import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { actionName } from '../../src/api/action-name.ts';
import { ROUTES } from '../../src/api/routes.ts';

describe('what a change is called in the audit log', () => {
  it('follows from its method and path', () => {
    const cases: [method: string, path: string, name: string][] = [
      ['POST', '/projects', 'project.create'],
      ['PATCH', '/projects/:project_id', 'project.update'],
      ['DELETE', '/projects/:project_id/branches/:branch_id', 'branch.delete'],
      ['POST', '/projects/:project_id/branches/:branch_id/databases', 'database.create'],
      ['POST', '/projects/:project_id/branches/:branch_id/roles/:role_name/reset_password', 'role.reset_password'],
      ['POST', '/projects/:project_id/endpoints/:endpoint_id/restart', 'endpoint.restart'],
      ['PUT', '/projects/:project_id/branches/:branch_id/backup_schedule', 'branch.set_backup_schedule'],
      ['POST', '/projects/:project_id/jwks', 'jwks.create'],
      ['DELETE', '/organizations/:org_id/api_keys/:key_id', 'api_key.delete'],
      ['POST', '/organizations/:org_id/projects/transfer', 'project.transfer'],
      ['PATCH', '/users/me', 'user.update'],
    ];
    for (const [method, path, name] of cases) assert.equal(actionName(method, path), name);
  });

  it('is a noun and a verb, whatever the route', () => {
    const changes = ROUTES.filter(({ method }) => method !== 'GET');
    for (const { method, path } of changes) assert.match(actionName(method, path), /^[a-z_-]+\.[a-z_-]+$/);
  });
});
