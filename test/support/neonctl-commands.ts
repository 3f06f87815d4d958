/** What the commands are about. */
export interface CommandWorld {
  readonly project_id: string;
  readonly org_id: string;
  /** Of a key that does not exist. */
  readonly wrong_key: string;
}

type Command = readonly string[];

/** Not `neon.ts`: with that `checkout --create` asks the public API, whatever `NEON_API_HOST` says. */
const POLICY = 'policy.mjs';

/** What `neonctl config` is to bring about: a branch of its own size, that nobody deletes by mistake. */
export const CONFIG_POLICY = {
  file: POLICY,
  text: `import { defineConfig } from '@neon/config/v1';

export default defineConfig({
  auth: false,
  branch: (branch) =>
    branch.isDefault
      ? {}
      : {
          protected: true,
          postgres: { computeSettings: { autoscalingLimitMinCu: 0.5, autoscalingLimitMaxCu: 2, suspendTimeout: '10m' } },
        },
});
`,
};

/**
 * What people type, in this order; the commands of a group need nothing of each other and run at once. The operations of
 * a group end before the next begins. The commands whose answers neonctl.test.ts looks at closely are not repeated.
 */
export const neonctlCommands = ({ project_id, org_id, wrong_key }: CommandWorld): readonly (readonly Command[])[] => [
  // Who asks, and what there is.
  [['me'], ['projects', 'list'], ['orgs', 'list', '--output', 'yaml'], ['me', '--api-key', wrong_key]],
  [
    ['projects', 'get', project_id],
    ['branches', 'list'],
    ['operations', 'list', '--output', 'json'],
    ['databases', 'list', '--branch', 'main'],
  ],
  [
    ['roles', 'list', '--branch', 'main', '--output', 'yaml'],
    ['ip-allow', 'list'],
    ['branches', 'get', 'nowhere'],
  ],

  // How to connect, now and at a point of the past.
  [
    ['connection-string', 'main', '--pooled', '--prisma'],
    ['connection-string', 'main', '--extended'],
    ['connection-string', 'main@2025-01-01T00:00:00Z'],
    ['connection-string', 'main', '--endpoint-type', 'read_only'],
  ],

  // A project from its first day on.
  [
    ['projects', 'create', '--name', 'second', '--database', 'shop', '--role', 'seller', '--pg-version', '16'],
    ['projects', 'update', project_id, '--name', 'first', '--cu', '0.5-1'],
  ],

  // A directory that belongs to a branch, which is as its policy says.
  [['link', '--project-id', project_id, '--branch', 'main', '--no-env-pull']],
  [['checkout', 'feature', '--create', '--no-env-pull']],
  [['status'], ['config', 'status', '--config-json'], ['env', 'pull', '--file', '.env.pulled']],
  [['config', 'plan', '--config', POLICY]],
  [['config', 'apply', '--config', POLICY, '--update-existing', '--no-env-pull']],
  [['config', 'plan', '--config', POLICY]],
  [['set-context', '--project-id', project_id, '--org-id', org_id]],

  // Any call of the API, and what Coppice does not have.
  [
    ['api', `/projects/${project_id}/branches/count`, '-Q', 'search=feature'],
    ['api', '/organizations/nowhere/members', '-X', 'PUT'],
    ['data-api', 'get', '--branch', 'feature'],
    ['neon-auth', 'status', '--branch', 'feature'],
  ],
  [
    ['buckets', 'list', '--branch', 'feature'],
    ['functions', 'list', '--branch', 'feature'],
    ['logs', 'query', '--branch', 'feature'],
  ],
];
