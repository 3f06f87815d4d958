import pg from 'pg';
import type { CrowdJob, CrowdResult, CrowdTarget } from './crowd.ts';
import { CrowdClient } from './crowd-client.ts';

/** Logins under way at a time, where not all come at once. */
const LOGINS_AT_ONCE = 32;
/** Statements under way at a time, where each of many idle clients runs one. */
const SELECTS_AT_ONCE = 500;
const STATEMENT = 'select 1';

let clients: CrowdClient[] = [];

/** Runs `work` so often, some at a time; times each, and collects what goes wrong. */
async function collect(count: number, at_once: number, work: (index: number) => Promise<void>): Promise<CrowdResult> {
  let next = 0;
  return collectWhile(
    Math.min(at_once, count),
    () => next < count,
    () => work(next++),
  );
}

async function collectWhile(at_once: number, goesOn: () => boolean, work: () => Promise<void>): Promise<CrowdResult> {
  const latencies_ms: number[] = [];
  const failures: string[] = [];
  const began = performance.now();
  const worker = async () => {
    while (goesOn()) {
      const started = performance.now();
      try {
        await work();
        latencies_ms.push(performance.now() - started);
      } catch (error) {
        failures.push((error as Error).message);
      }
    }
  };
  await Promise.all(Array.from({ length: at_once }, worker));
  return { latencies_ms, failures, took_ms: performance.now() - began };
}

async function openOne(target: CrowdTarget): Promise<CrowdClient> {
  const client = await CrowdClient.open(target);
  clients.push(client);
  return client;
}

async function queryByPg({ between, login, sslmode }: CrowdTarget, connections: number, duration_ms: number) {
  const { port, options } = between;
  const ssl = sslmode === 'require' && { rejectUnauthorized: false };
  const opened = Array.from({ length: connections }, () => {
    return new pg.Client({ host: '127.0.0.1', port, options, ssl, ...login });
  });
  await Promise.all(opened.map((client) => client.connect()));
  const until_ms = performance.now() + duration_ms;
  const idle = [...opened];
  const result = await collectWhile(
    connections,
    () => performance.now() < until_ms,
    async () => {
      const client = idle.pop()!;
      await client.query(STATEMENT).finally(() => idle.push(client));
    },
  );
  await Promise.all(opened.map((client) => client.end()));
  return result;
}

function run(job: CrowdJob): Promise<CrowdResult> {
  switch (job.what) {
    case 'open':
      return collect(job.count, LOGINS_AT_ONCE, async () => void (await openOne(job.target)));
    case 'select':
      return collect(clients.length, SELECTS_AT_ONCE, (index) => clients[index]!.query(STATEMENT));
    case 'storm':
      return collect(job.count, job.count, async () => (await openOne(job.target)).query(STATEMENT));
    case 'churn': {
      const until_ms = performance.now() + job.duration_ms;
      const goesOn = () => performance.now() < until_ms;
      return collectWhile(LOGINS_AT_ONCE, goesOn, async () => (await CrowdClient.open(job.target)).close());
    }
    case 'query':
      return queryByPg(job.target, job.connections, job.duration_ms);
    case 'close': {
      const closing = clients;
      clients = [];
      return collect(closing.length, LOGINS_AT_ONCE, (index) => closing[index]!.close());
    }
  }
}

process.on('message', async (job: CrowdJob) => {
  process.send!(await run(job));
});
// The parent has gone.
process.on('disconnect', () => process.exit());
