import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { openCertificateAuthority } from '../../src/gateway/certificate-authority.ts';
import type { TestApi } from './api-server.ts';
import { goProgram } from './go-program.ts';
import { finishOperations } from './project.ts';

const run = promisify(execFile);
/** The only address that the provider knows. */
const PUBLIC_HOST = 'console.neon.tech';

export interface Programs {
  readonly terraform: string;
  readonly provider: string;
}

/** Terraform, and its provider for Neon; undefined, with a line that says so, where one cannot be had. */
export async function terraformPrograms(): Promise<Programs | undefined> {
  const terraform = await run('which', ['terraform']).then(
    ({ stdout }) => stdout.trim(),
    () => undefined,
  );
  if (terraform === undefined) {
    process.stderr.write('Terraform is not tested: there is none here\n');
    return undefined;
  }
  const provider = await goProgram({
    package: 'github.com/kislerdm/terraform-provider-neon',
    version: '0.15.0',
    for: 'Terraform',
  });
  return provider === undefined ? undefined : { terraform, provider };
}

interface Ended {
  readonly code: number;
  readonly out: string;
}

/** A directory with a configuration, and Terraform in it. */
export interface Workspace {
  write(configuration: string): Promise<void>;
  /** Runs a command, which may fail. */
  run(...words: string[]): Promise<Ended>;
  /** Runs one that must not; gives what it prints. */
  must(...words: string[]): Promise<string>;
}

export interface Terraform {
  workspace(): Promise<Workspace>;
  close(): Promise<void>;
}

/**
 * Terraform with the provider, both unmodified. The provider knows one address alone; what it asks there is led to the API
 * by the variables that every such program heeds: a proxy for HTTPS, and an authority to trust. As there is no engine,
 * operations end when somebody looks at one.
 */
export async function openTerraform(api: TestApi, { terraform, provider }: Programs): Promise<Terraform> {
  const home = await mkdtemp(join(tmpdir(), 'tf-'));
  const authority = await openCertificateAuthority(join(home, 'ca'));
  const { certificate_pem, key_pem } = await authority.issue([PUBLIC_HOST]);
  const secure = createSecureServer({ cert: certificate_pem, key: key_pem }, async (request, response) => {
    const [, project_id] = /^\/api\/v2\/projects\/([^/]+)\/operations\/./.exec(request.url!) ?? [];
    if (project_id) await finishOperations(api, project_id);
    api.app.routing(request, response);
  });
  const proxy = createServer((_, response) => response.writeHead(405).end());
  proxy.on('connect', (request, socket) => {
    if (request.url !== `${PUBLIC_HOST}:443`) {
      socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
      return;
    }
    socket.write('HTTP/1.1 200 OK\r\n\r\n');
    secure.emit('connection', socket);
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const settings = join(home, 'terraformrc');
  const overrides = `dev_overrides { "kislerdm/neon" = ${JSON.stringify(dirname(provider))} }`;
  await writeFile(settings, `provider_installation {\n  ${overrides}\n}\n`);
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    TMPDIR: home,
    TF_CLI_CONFIG_FILE: settings,
    TF_IN_AUTOMATION: '1',
    CHECKPOINT_DISABLE: '1',
    NEON_API_KEY: api.key,
    HTTPS_PROXY: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    SSL_CERT_FILE: join(home, 'ca/ca.crt'),
  };
  const workspace = async (): Promise<Workspace> => {
    const cwd = await mkdtemp(join(home, 'w-'));
    const runThere = (...words: string[]): Promise<Ended> =>
      run(terraform, [...words, '-no-color'], { cwd, env }).then(
        ({ stdout, stderr }) => ({ code: 0, out: stdout + stderr }),
        ({ code, stdout, stderr }) => ({ code, out: stdout + stderr }),
      );
    return {
      write: (configuration) => writeFile(join(cwd, 'main.tf'), configuration),
      run: runThere,
      must: async (...words) => {
        const { code, out } = await runThere(...words);
        if (code !== 0) throw new Error(`terraform ${words.join(' ')} ended with ${code}:\n${out}`);
        return out;
      },
    };
  };
  return {
    workspace,
    close: async () => {
      proxy.closeAllConnections();
      secure.closeAllConnections();
      await new Promise((resolve) => proxy.close(resolve));
      await rm(home, { recursive: true, force: true });
    },
  };
}
