import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startTestApi, type TestApi } from '../support/api-server.ts';
import { openTerraform, type Terraform, terraformPrograms, type Workspace } from '../support/terraform.ts';

const programs = await terraformPrograms();

interface Wanted {
  readonly name?: string;
  readonly branch?: string;
  readonly most_cu?: number;
  /** What is there already: the ids that resources are taken over by. */
  readonly imports?: Readonly<Record<string, string>>;
}

/** What there is, and by which ids it can be taken over. */
const OUTPUTS = `
data "neon_branches" "all" {
  project_id = neon_project.shop.id
  depends_on = [neon_branch.staging]
}

output "ids" {
  value = {
    "neon_project.shop"     = neon_project.shop.id
    "neon_branch.staging"   = "\${neon_project.shop.id}/\${neon_branch.staging.id}"
    "neon_endpoint.staging" = "\${neon_project.shop.id}/\${neon_endpoint.staging.id}"
    "neon_role.app"         = neon_role.app.id
    "neon_database.app"     = neon_database.app.id
  }
}

output "branches" {
  value = sort([for branch in data.neon_branches.all.branches : branch.name])
}
`;

/** A project with a branch, and everything in it that people describe like that. */
const configuration = ({ name = 'shop', branch = 'staging', most_cu = 1, imports = {} }: Wanted = {}) => `
terraform {
  required_providers {
    neon = { source = "kislerdm/neon" }
  }
}

resource "neon_project" "shop" {
  name                      = "${name}"
  pg_version                = 17
  history_retention_seconds = 86400
  allowed_ips               = ["192.0.2.0/24", "127.0.0.1"]
  branch {
    name          = "trunk"
    role_name     = "seller"
    database_name = "goods"
  }
  default_endpoint_settings {
    autoscaling_limit_min_cu = 0.25
    autoscaling_limit_max_cu = 1
    suspend_timeout_seconds  = 120
  }
}

resource "neon_branch" "staging" {
  project_id = neon_project.shop.id
  parent_id  = neon_project.shop.default_branch_id
  name       = "${branch}"
}

resource "neon_endpoint" "staging" {
  project_id               = neon_project.shop.id
  branch_id                = neon_branch.staging.id
  autoscaling_limit_min_cu = 0.25
  autoscaling_limit_max_cu = ${most_cu}
  suspend_timeout_seconds  = 300
  pg_settings              = { work_mem = "8MB" }
}

resource "neon_role" "app" {
  project_id = neon_project.shop.id
  branch_id  = neon_branch.staging.id
  name       = "app"
}

resource "neon_database" "app" {
  project_id = neon_project.shop.id
  branch_id  = neon_branch.staging.id
  name       = "app"
  owner_name = neon_role.app.name
}

${OUTPUTS}${Object.entries(imports)
  .map(([to, id]) => `\nimport {\n  to = ${to}\n  id = "${id}"\n}\n`)
  .join('')}`;

// Where it cannot be had, a line has said so.
if (programs) {
  describe('Terraform, with its provider for Neon', { timeout: 300_000 }, () => {
    let api: TestApi;
    let terraform: Terraform;
    before(async () => {
      api = await startTestApi();
      terraform = await openTerraform(api, programs);
    });
    after(async () => {
      await terraform?.close();
      await api?.close();
    });

    const apply = (workspace: Workspace) => workspace.must('apply', '-auto-approve', '-input=false');
    const plan = (workspace: Workspace) => workspace.run('plan', '-detailed-exitcode', '-input=false');
    const outputs = async (workspace: Workspace) => JSON.parse(await workspace.must('output', '-json'));
    /** All that there is of the project. */
    const world = async (project_id: string) => {
      const rows = async (path: string) => Object.values((await api.call('GET', path)).body)[0] as { name: string }[];
      const branches = await rows(`/projects/${project_id}/branches`);
      const names = async (kind: string) => {
        const found = await Promise.all(
          branches.map(async ({ id, name }: { id?: string; name: string }) =>
            (await rows(`/projects/${project_id}/branches/${id}/${kind}`)).map((row) => `${name}/${row.name}`),
          ),
        );
        return found.flat().sort();
      };
      return {
        branches: branches.map(({ name }) => name).sort(),
        databases: await names('databases'),
        roles: await names('roles'),
      };
    };

    it('makes a project once, changes it, takes over what is there, and leaves nothing', async () => {
      const workspace = await terraform.workspace();
      await workspace.write(configuration());
      assert.match(await apply(workspace), /5 added, 0 changed, 0 destroyed/);
      const { ids, branches } = await outputs(workspace);
      assert.deepEqual(branches.value, ['staging', 'trunk']);
      const project_id = ids.value['neon_project.shop'];
      const { project } = (await api.call('GET', `/projects/${project_id}`)).body;
      assert.deepEqual(project.settings.allowed_ips.ips, ['192.0.2.0/24', '127.0.0.1']);
      assert.deepEqual(await world(project_id), {
        branches: ['staging', 'trunk'],
        databases: ['staging/app', 'staging/goods', 'trunk/goods'],
        roles: ['staging/app', 'staging/seller', 'trunk/seller'],
      });

      assert.match(await apply(workspace), /0 added, 0 changed, 0 destroyed/);

      await workspace.write(configuration({ name: 'store', branch: 'preview', most_cu: 2 }));
      assert.match(await apply(workspace), /0 added, 3 changed, 0 destroyed/);
      const { endpoints } = (await api.call('GET', `/projects/${project_id}/endpoints`)).body;
      const endpoint = endpoints.find(({ id }: { id: string }) => ids.value['neon_endpoint.staging'].endsWith(id));
      assert.equal(endpoint.autoscaling_limit_max_cu, 2);
      assert.deepEqual((await world(project_id)).branches, ['preview', 'trunk']);

      const other = await terraform.workspace();
      await other.write(configuration({ name: 'store', branch: 'preview', most_cu: 2, imports: ids.value }));
      assert.match(await apply(other), /5 imported, 0 added, 0 changed, 0 destroyed/);
      const again = await plan(other);
      assert.equal(again.code, 0, again.out);

      // Somebody was here meanwhile.
      const [project_path, branch_id] = ids.value['neon_branch.staging'].split('/');
      await api.call('DELETE', `/projects/${project_path}/branches/${branch_id}/databases/app`);
      const missing = await plan(other);
      assert.equal(missing.code, 2, missing.out);
      assert.match(missing.out, /1 to add, 0 to change, 0 to destroy/);
      assert.match(await apply(other), /1 added, 0 changed, 0 destroyed/);

      await other.must('destroy', '-auto-approve', '-input=false');
      assert.equal((await api.call('GET', `/projects/${project_id}`)).status, 404);
      const gone = await plan(workspace);
      assert.match(gone.out, /5 to add, 0 to change, 0 to destroy/);
    });
  });
}
