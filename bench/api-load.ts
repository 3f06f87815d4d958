import { randomBytes } from 'node:crypto';
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import { bootstrap } from '../src/actions/bootstrap.ts';
import type { ActionContext } from '../src/actions/context.ts';
import { createProject } from '../src/actions/create-project.ts';
import { createApi } from '../src/api/server.ts';
import { newApiKey, Vault } from '../src/domain/credentials.ts';
import { createChangeWatch } from '../src/store/change-watch.ts';
import { listenForChanges } from '../src/store/changes.ts';
import type { Log } from '../src/watch/log-fields.ts';
import { createLogger } from '../src/watch/logger.ts';
import type { TestStore } from '../test/support/store.ts';
import { percentile } from './figure.ts';

export interface Round {
  readonly p50_ms: number;
  readonly p99_ms: number;
  readonly per_second: number;
}

/** One thing that is asked for again and again, by its number in the list of projects. */
export type Ask = (index: number) => Promise<void>;

/** The API over a store with projects in it, made as callers make them. */
export async function openApi(store: TestStore, { projects: count }: { projects: number }) {
  const key = newApiKey();
  const { user_id } = await bootstrap(store.store, { email: 'owner@example.test', api_key: key });
  const context: ActionContext = {
    store: store.store,
    vault: new Vault(randomBytes(32)),
    installation: {
      ...{ region_id: 'local', public_url: 'http://localhost:7432' },
      ...{ domain: 'localhost', pg_port: 5432, domain_resolves: true },
      ...{
        object_storage: false,
        time_travel_timeout_seconds: 30,
        min_suspend_timeout_seconds: 60,
        default_pg_version: 17,
        distributions: new Map([[17, 'npm-17']]),
      },
    },
    history: { resolve: () => Promise.reject(new Error('reads do not look into the past')) },
  };
  const { rows } = await store.pool.query<{ id: `org-${string}` }>('select id from organizations');
  const caller = {
    ...{ kind: 'personal' as const, key_id: 0, user: { id: user_id, email: 'owner@example.test', name: '' } },
    read_only: false,
    memberships: new Map([[rows[0]!.id, 'admin' as const]]),
  };
  const projects: { id: string; operation: string }[] = [];
  for (let made = 0; made < count; made += 1) {
    const { project, operations } = await createProject(context, caller, {});
    projects.push({ id: project.id, operation: operations[0]!.id });
  }
  await store.pool.query('analyze');
  const logger = createLogger({ level: 'info', stream: { write: () => undefined } }) as Log & FastifyBaseLogger;
  const changes = createChangeWatch();
  const listener = await listenForChanges(store.connection, {
    onChange: ({ id }) => changes.hear(id),
    onGap: () => undefined,
    onAgain: () => changes.hearAll(),
  });
  const app = await createApi({ context, changes, ready: () => true, logger });
  const close = () => app.close().finally(() => listener.close());
  return { app, close, key, headers: { authorization: `Bearer ${key}` }, projects };
}

export const askApi =
  (app: FastifyInstance, headers: Record<string, string>, paths: readonly string[]): Ask =>
  async (index) => {
    const { statusCode, body } = await app.inject({ url: `/api/v2${paths[index % paths.length]}`, headers });
    if (statusCode !== 200) throw new Error(`the API answered ${statusCode}: ${body}`);
  };

/** Each of the askers sends its next question when its last one is answered. */
export async function runRound(
  ask: Ask,
  { round_ms, at_once }: { readonly round_ms: number; readonly at_once: number },
): Promise<Round> {
  const latencies: number[] = [];
  const began = performance.now();
  const asker = async (first: number) => {
    for (let next = first; ; next += 7) {
      const asked = performance.now();
      await ask(next);
      const answered = performance.now();
      latencies.push(answered - asked);
      if (answered - began >= round_ms) return;
    }
  };
  await Promise.all(Array.from({ length: at_once }, (_, first) => asker(first)));
  return {
    p50_ms: percentile(latencies, 0.5),
    p99_ms: percentile(latencies, 0.99),
    per_second: (latencies.length * 1000) / (performance.now() - began),
  };
}
